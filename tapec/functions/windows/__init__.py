"""Windows that move over images: convolutions, pools, morphology, blocks of pixels."""
