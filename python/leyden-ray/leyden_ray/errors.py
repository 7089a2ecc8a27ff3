"""The error of this package."""


class LeydenError(RuntimeError):
    """A failure with its file or field, and with what to do next."""
