"""The model's side, from config and tokenizer alone: reachable, and able to call tools in the way TRL reads them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trl_envs.agent.dataset import messages
from trl_envs.agent.models import load_tokenizer
from trl_envs.config.model_location import model_location
from trl_envs.config.schema import TrainConfig
from trl_envs.errors import ConfigError
from trl_envs.preflight.probe_env import Candidate, sample_arguments
from trl_envs.preflight.probe_report import Collector
from trl_envs.preflight.probe_tokens import template_kwargs

_TWO_WAYS = (
    "train a model that is here: model=tiny (ships with trl-env) or model=/path/to/a/model; or make it reachable: "
    "check its name, the network and HF_HUB_OFFLINE, and set HF_TOKEN to a token that may read it if it is gated"
)
_OTHER_MODEL = (
    "choose a model with tools in its template, such as model=Qwen/Qwen3-0.6B, model=Qwen/Qwen2.5-0.5B-Instruct or "
    "model=tiny; or model.tokenizer=PATH of a tokenizer with such a template"
)


@dataclass(frozen=True)
class ModelFacts:
    """What a model's config and tokenizer tell, without its weights.

    Args:
        tokenizer: Its tokenizer.
        config: Its config.json, that of the text model; empty for an adapter whose base can't be read.
        parameters: How many its weights hold, where they are files of this machine; else None.
        speaks: Whether TRL can train with its chat template.
    """

    tokenizer: Any
    config: Mapping[str, Any]
    parameters: int | None
    speaks: bool

    @property
    def positions(self) -> int | None:
        """The length that the model was made for, in tokens; None where its config doesn't tell."""
        found = self.config.get("max_position_embeddings")
        return found if isinstance(found, int) else None


def check_model(config: TrainConfig, candidates: Sequence[Candidate], collector: Collector) -> ModelFacts | None:
    """Loads config and tokenizer, and takes the chat template through a tool call and back.

    Args:
        config: The run's config.
        candidates: Environments whose tools the template has to render.
        collector: Takes the findings and the figure `model`.

    Returns:
        What there is to know of the model; None if it can't be had.
    """
    try:
        location = model_location(config.model.path)
        model_config, parameters = _model_config(location), _parameters(location)
        tokenizer = load_tokenizer(config.model)
    except (ConfigError, OSError, ValueError) as error:
        reason = error.message if isinstance(error, ConfigError) else _first_line(error)
        if config.model.path not in reason:
            reason = f"the model {config.model.path} can't be loaded: {reason}"
        collector.error("model.path", reason, _TWO_WAYS)
        return None
    template = _check_template(config, tokenizer, collector)
    figures: dict[str, Any] = {"path": config.model.path, "prompt_tokens": {}}
    if template is not None:
        for candidate in candidates:
            if candidate.schemas:
                tokens = _check_round_trip(config, candidate, tokenizer, template["template"], collector)
                figures["prompt_tokens"][candidate.name] = tokens
    collector.figure("model", figures)
    return ModelFacts(tokenizer, model_config, parameters, template is not None)


def _model_config(location: str) -> dict[str, Any]:
    """config.json of the text model; an adapter's is that of its base, empty if that isn't here.

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
    adapter = folder / "adapter_config.json"
    if adapter.is_file():
        base = json.loads(adapter.read_text(encoding="utf-8")).get("base_model_name_or_path") or ""
        try:
            return dict(AutoConfig.from_pretrained(base).get_text_config().to_dict())
        except (OSError, ValueError):
            return {}
    return dict(AutoConfig.from_pretrained(location).get_text_config().to_dict())


def _parameters(location: str) -> int | None:
    """The number of weights in a folder, from the headers of its safetensors files; None without such files."""
    folder = Path(location)
    files = list(folder.glob("*.safetensors")) if folder.is_dir() else []
    if not files or (folder / "adapter_config.json").is_file():
        return None
    total = 0
    for file in files:
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            header = json.loads(opened.read(length))
        total += sum(math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
    return total


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
    kwargs = template_kwargs(config)

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


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
