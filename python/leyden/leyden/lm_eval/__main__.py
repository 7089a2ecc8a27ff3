"""The harness's command with the model `leyden`."""

from lm_eval.__main__ import cli_evaluate

import leyden.lm_eval  # noqa: F401

if __name__ == "__main__":
    cli_evaluate()
