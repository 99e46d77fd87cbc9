"""The fields of the installed SFTConfig under `sft`, and those that the launcher owns."""

from __future__ import annotations

from functools import cache

from trl_envs.config.grpo_fields import SHARED_SOURCES, GrpoField, read_fields

_TOKENS = "nothing: the games are rendered as GRPO renders them, and the model's own turns alone are learnt from"

# Fields that the launcher sets itself, and the key with which a person steers them.
SFT_OWNED = {
    "output_dir": "output_dir=FOLDER",
    "run_name": "run_name=NAME",
    "seed": "seed=N",
    "use_cpu": "launch=single",
    "resume_from_checkpoint": "nothing: a warm-up is started anew",
    "report_to": "logging.report_to=[NAME]",
    "hub_token": "the environment variable HF_TOKEN (a token in a config file would leak)",
    "assistant_only_loss": _TOKENS,
    "completion_only_loss": _TOKENS,
    "chat_template_path": _TOKENS,
    "dataset_text_field": _TOKENS,
    "dataset_kwargs": _TOKENS,
    "eos_token": _TOKENS,
}


@cache
def sft_fields() -> dict[str, GrpoField]:
    """Fields of the installed SFTConfig by name.

    Raises:
        ConfigError: TRL or transformers isn't installed.
    """
    return read_fields((*SHARED_SOURCES, ("trl", "trainer/sft_config.py", "SFTConfig")))
