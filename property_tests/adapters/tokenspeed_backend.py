"""The same drafter over the engine's own backend hook, ``layers/attention/backends/cache_groups.py``, as it stands.

The engine has two ways to a draft row's KV cell. Its plain attention backends take the locations that the drafter got
from its cache view (system ``tokenspeed``); its short-conv backend takes those that the hook computes for each cache
group, which this system does. They agree but below position 0: the hook clamps each row, the cache view the first one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DraftConfig, DraftModel
from frontier_oracle.property_tests.adapters.tokenspeed import Runner, TokenspeedMtp
from frontier_oracle.property_tests.adapters.tokenspeed_parts import ENGINE, Metadata, nothing

BACKENDS = "tokenspeed.runtime.layers.attention"
GROUPS = f"{BACKENDS}.backends.cache_groups"
SUPPLIED: dict[str, dict[str, Any]] = {
    "tokenspeed_kernel.ops.kvcache.triton": {"compute_group_decode_locs": nothing, "unpack_group_tables": nothing},
    f"{BACKENDS}.kv_cache.recipes.cache_runtime": {"cache_debug_enabled": lambda: False},
    f"{BACKENDS}.page_table": {"expand_page_table": nothing},
    "tokenspeed.runtime.utils": {"get_colorful_logger": lambda name: None},
    "tokenspeed.runtime.utils.common": {"ceil_div": lambda a, b: -(-a // b)},
}


@dataclass(frozen=True)
class DecodeMetadata:
    """The hook's input and result: seq_lens [bs], page_tables and out_cache_locs by group."""

    seq_lens: Tensor
    page_tables: dict[str, Tensor]
    out_cache_locs: dict[str, Tensor]


@cache
def cache_groups(root: Path) -> Any:
    """The engine's group mixin."""
    files = {GROUPS: f"{GROUPS.replace('.', '/')}.py"}
    return ENGINE.load(files, SUPPLIED, root)[GROUPS].CacheGroupsMixin


class BackendRunner(Runner):
    """Decode rows go where the engine's hook says. Its page tables hold one page of ``span`` positions a request."""

    def __init__(self, config: DraftConfig, model: DraftModel) -> None:
        super().__init__(config, model)
        self.backend = object.__new__(cache_groups(ENGINE.root()))
        self.backend.kernel_page_size, self.backend.spec_num_tokens = self.span, config.spec.k
        self.backend.group_block_granularities = {"all": self.span}

    def begin(self, metadata: Metadata) -> None:
        super().begin(metadata)
        bs = len(metadata.seq_lens)
        tables = {"all": torch.arange(bs, dtype=torch.int32, device=self.device)[:, None]}
        self.backend.forward_decode_metadata = DecodeMetadata(metadata.seq_lens, tables, {})
        self.hooked = False

    def update_draft_forward_metadata(self, frontier: Tensor) -> None:
        self.backend.update_draft_forward_metadata(frontier)
        self.metadata.seq_lens = self.backend.forward_decode_metadata.seq_lens
        self.hooked = True

    def cells(self, out_cache_loc: Tensor) -> tuple[Tensor, ...]:
        groups = self.backend.forward_decode_metadata.out_cache_locs
        return super().cells(groups["all"] if self.hooked else out_cache_loc)


class TokenspeedBackend(TokenspeedMtp):
    """contract.StashSystem."""

    declares: ClassVar[str] = "tokenspeed_hook"
    runner_type: ClassVar[type[Runner]] = BackendRunner


def make(config: DraftConfig, model: DraftModel) -> TokenspeedBackend:
    """The plug-in entry point, system ``tokenspeed_backend``."""
    return TokenspeedBackend(config, model)
