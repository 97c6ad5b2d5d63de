"""What Keras mixes into its layers for a backend: nothing."""


class BackendLayer:
    """The mix-in."""


NumpyLayer = BackendLayer
