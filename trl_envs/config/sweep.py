"""Several values for a key: one job for each combination, in Hydra's grammar (`a,b`, `range(1,4)`, `choice(a,b)`)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, QuotedString, Transformer
from hydra.errors import HydraException

from trl_envs.config.overrides import Parsed, parse_override, parsed_value
from trl_envs.errors import ConfigError

MOST_JOBS = 1000


def expand(arguments: Sequence[str]) -> list[list[Parsed]]:
    """The jobs of a sweep, in the order of the arguments, the last one varying fastest.

    Args:
        arguments: Overrides as typed.

    Returns:
        The overrides of each job.

    Raises:
        ConfigError: An override that can't be read, an interval (which has no end of values), or too many jobs.
    """
    axes = [_values(argument) for argument in arguments]
    jobs = 1
    for axis in axes:
        jobs *= len(axis)
    if jobs > MOST_JOBS:
        raise ConfigError(f"the sweep has {jobs} jobs, and {MOST_JOBS} are the most", "sweep over fewer values")
    return [list(job) for job in itertools.product(*axes)]


def _values(argument: str) -> list[Parsed]:
    sweep = _sweep(argument)
    if sweep is None:
        return [parse_override(argument)]
    if not sweep.is_discrete_sweep() or "glob(" in argument:
        raise ConfigError(
            f"{argument} has no list of values", "name them: KEY=A,B or KEY=range(1,4) or KEY=choice(A,B)"
        )
    key = argument.lstrip("+").partition("=")[0]
    return [parsed_value(key, _plain(value)) for value in sweep.sweep_iterator(transformer=Transformer.identity)]


def _sweep(argument: str) -> Override | None:
    try:
        override = OverridesParser.create().parse_override(argument)
    except HydraException:
        # Not in Hydra's grammar: a single value, or a mistake that parse_override explains.
        return None
    return override if override.is_sweep_override() else None


def _plain(value: Any) -> Any:
    if isinstance(value, QuotedString):
        return value.text
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
