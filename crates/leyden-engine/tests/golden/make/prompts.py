"""The ten prompts of the greedy and the teacher-forced goldens.

Between flash attention on and off llama.cpp moves its own logits by up to 0.025 on such texts, so a greedy text
is defined by the model, and not by rounding, only where no step is closer than that order. About forty texts of
different kinds were tried; these ten are among those for which all 64 steps have a gap of at least 0.015 and
llama.cpp with flash attention off and a float64 evaluation choose the same 64 tokens.
"""

HELD_OUT = (50_000, 51_100)  # byte range of heldout.txt that serves as the long prompt


def prompts(heldout):
    """Name and text of every prompt; `heldout` is the held-out text as bytes."""
    a, b = HELD_OUT
    return [
        ("empty", ""),
        ("once", "Once upon a time"),
        ("window", "The princess looked out of the window, and she saw"),
        ("dialogue", "\"What is your name?\" asked the old woman.\n\n\""),
        ("numbers", "In the year 1845 there were 365 days and"),
        ("capitals", "THE END OF THE STORY"),
        ("scripts", "The caf\u00e9 was tr\u00e8s \u00e9l\u00e9gant \u2014 Zo\u00eb smiled: \u201c\u00c7a va?\u201d \u4f60\u597d \u041f\u0440\u0438\u0432\u0435\u0442 \U0001f409 and"),
        ("spaces", "  \n\n\tAnd  then   there were\n none.\n\n"),
        ("code", "#include <stdio.h>\nint main(void) { return 0; }\n"),
        ("long", heldout[a:b].decode("utf-8")),
    ]
