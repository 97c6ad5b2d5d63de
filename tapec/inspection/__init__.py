"""Looking into programs: their lines, the stages that passes take them through, how two of them differ.

What the commands ``ir``, ``html``, ``diff``, ``flops``, ``lint``, ``reduce`` show; nothing here prints.
"""
