"""The model's side, from config and tokenizer alone: reachable, and able to call tools in the way TRL reads them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trl_envs.agent.dataset import messages
from trl_envs.agent.models import load_tokenizer
from trl_envs.config.grpo_fields import grpo_value
from trl_envs.config.model_location import model_location
from trl_envs.config.schema import TrainConfig
from trl_envs.errors import ConfigError
from trl_envs.preflight.probe_env import Candidate, sample_arguments
from trl_envs.preflight.probe_report import Collector

_TWO_WAYS = (
    "train a model that is here: model=tiny (ships with trl-env) or model=/path/to/a/model; or make it reachable: "
    "check its name, the network and HF_HUB_OFFLINE, and set HF_TOKEN to a token that may read it if it is gated"
)
_OTHER_MODEL = (
    "choose a model with tools in its template, such as model=Qwen/Qwen3-0.6B, model=Qwen/Qwen2.5-0.5B-Instruct or "
    "model=tiny; or model.tokenizer=PATH of a tokenizer with such a template"
)


def check_model(config: TrainConfig, candidates: Sequence[Candidate], collector: Collector) -> None:
    """Loads config and tokenizer, and takes the chat template through a tool call and back.

    Args:
        config: The run's config.
        candidates: Environments whose tools the template has to render.
        collector: Takes the findings and the figure `model`.
    """
    try:
        positions = _positions(model_location(config.model.path))
        tokenizer = load_tokenizer(config.model)
    except (ConfigError, OSError, ValueError) as error:
        reason = error.message if isinstance(error, ConfigError) else _first_line(error)
        if config.model.path not in reason:
            reason = f"the model {config.model.path} can't be loaded: {reason}"
        collector.error("model.path", reason, _TWO_WAYS)
        return
    template = _check_template(config, tokenizer, collector)
    figures: dict[str, Any] = {"path": config.model.path, "prompt_tokens": {}}
    if template is not None:
        for candidate in candidates:
            if candidate.schemas:
                tokens = _check_round_trip(config, candidate, tokenizer, template["template"], collector)
                figures["prompt_tokens"][candidate.name] = tokens
    _check_length(config, figures["prompt_tokens"], positions, collector)
    collector.figure("model", figures)


def _positions(location: str) -> int | None:
    """The length that the model was made for, in tokens; None for an adapter, or where its config doesn't tell.

    Raises:
        OSError: There is no such model, or it can't be reached.
        ValueError: It is no model that transformers knows.
    """
    from transformers import AutoConfig

    folder = Path(location)
    if folder.is_absolute() and not folder.is_dir():
        raise OSError(f"there is no folder {location}")
    if folder.is_dir() and not any(file.suffix in (".safetensors", ".bin") for file in folder.iterdir()):
        raise OSError(f"the folder {location} holds no weights")
    if (folder / "adapter_config.json").is_file():
        return None
    found = getattr(AutoConfig.from_pretrained(location).get_text_config(), "max_position_embeddings", None)
    return found if isinstance(found, int) else None


def _check_template(config: TrainConfig, tokenizer: Any, collector: Collector) -> dict[str, str | None] | None:
    """The steps of GRPOTrainer.__init__ (TRL 1.16), in its order.

    Returns:
        `template`: what TRL would train with in place of the tokenizer's own (None: that one); or None altogether if
        it can't call tools.
    """
    from trl.chat_template_utils import (
        add_response_schema,
        get_training_chat_template,
        is_chat_template_prefix_preserving,
        supports_tool_calling,
    )

    key, name = "model.path", config.model.tokenizer or config.model.path
    if not supports_tool_calling(tokenizer):
        collector.error(key, f"the chat template of {name} doesn't support tool calling", _OTHER_MODEL)
        return None
    try:
        if not getattr(tokenizer, "response_template", None) and not getattr(tokenizer, "response_schema", None):
            add_response_schema(tokenizer)
        if is_chat_template_prefix_preserving(tokenizer):
            return {"template": None}
        return {"template": get_training_chat_template(tokenizer)}
    except ValueError as error:
        collector.error(
            key,
            f"TRL can't train with the chat template of {name}, which it knows by its exact text: {_first_line(error)}",
            _OTHER_MODEL,
        )
        return None


def _check_round_trip(
    config: TrainConfig, candidate: Candidate, tokenizer: Any, template: str | None, collector: Collector
) -> int | None:
    """Renders the prompt with the tools and a call behind it, reads the call back, and renders a result.

    Returns:
        Tokens of the prompt before the first observation; None if it can't be rendered.
    """
    from trl.chat_template_utils import parse_response

    instance = candidate.build()
    tools = [getattr(instance, tool) for tool in candidate.schemas]
    name, schema = max(candidate.schemas.items(), key=lambda item: len(sample_arguments(item[1])))
    wanted = {"name": name, "arguments": sample_arguments(schema)}
    call = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": wanted}]}
    conversation = messages(candidate.config)
    kwargs = grpo_value(config.grpo, "chat_template_kwargs") or {}
    kwargs = json.loads(kwargs) if isinstance(kwargs, str) else kwargs

    def ids(turns: list[dict[str, Any]], *, prompt: bool) -> list[int]:
        rendered: list[int] = tokenizer.apply_chat_template(
            turns, tools=tools, chat_template=template, add_generation_prompt=prompt, return_dict=False, **kwargs
        )
        return rendered

    try:
        before, after = ids(conversation, prompt=True), ids([*conversation, call], prompt=False)
        ids([*conversation, call, {"role": "tool", "name": name, "content": "a result"}], prompt=True)
    except Exception as error:
        # Templates are programs: jinja2's own errors, and whatever a template's operations raise.
        key, what = "grpo.chat_template_kwargs", f"the chat template can't render the tools of {candidate.name}"
        collector.foreign(key if kwargs else "model.path", what, error)
        return None
    # A generation prompt may end with what the template leaves out of finished turns, such as an empty think block.
    common = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before))
    turn = after[common:]
    if tokenizer.eos_token_id in turn:
        turn = turn[: turn.index(tokenizer.eos_token_id) + 1]
    parsed = parse_response(tokenizer, turn, prefix=after[:common], tools=tools).get("tool_calls") or []
    read = [one.get("function", one) for one in parsed]
    if [{"name": one.get("name"), "arguments": one.get("arguments")} for one in read] != [wanted]:
        collector.error(
            "model.path",
            f"a call of {candidate.name}'s tool {name} isn't read back as it was written: {wanted} became {read}",
            _OTHER_MODEL,
        )
    return len(before)


def _check_length(
    config: TrainConfig, prompts: dict[str, int | None], positions: int | None, collector: Collector
) -> None:
    completion = grpo_value(config.grpo, "max_completion_length")
    longest = max((tokens or 0 for tokens in prompts.values()), default=0)
    if positions is None or not isinstance(completion, int) or longest + completion <= positions:
        return
    collector.warning(
        "grpo.max_completion_length",
        f"a prompt of {longest} tokens and grpo.max_completion_length={completion} are more than the {positions} for "
        f"which {config.model.path} was made",
        f"set grpo.max_completion_length={max(positions - 2 * longest, 1)} or less",
    )


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
