"""A device at run time: its memory, and what a program does with it at a call.

==================  ====================================================================================
`driver`            memory, copies, streams, launches and graphs, through cuda.core; a fake can stand for it
`dlpack`            DLPack's capsules, made and read
`memory`            arrays on a device, used in the order of streams
`residents`         copies of Variables' arrays
`device_program`    what is copied, launched and returned at a call
`sharing`           memory of other libraries, both ways
==================  ====================================================================================
"""
