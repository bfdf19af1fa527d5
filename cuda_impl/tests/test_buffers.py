"""Fixed addresses, buckets, and the padded tail (S20, S24)."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from frontier_oracle.cuda_impl.buffers import Buffers
from frontier_oracle.cuda_impl.errors import BatchError

sys.path.insert(0, str(Path(__file__).parent))
from slow_loops import Feeder, rounds_config  # noqa: E402

CONFIG = rounds_config(4, batch=6)


def test_buckets_are_powers_of_two_up_to_the_largest_batch():
    buffers = Buffers(CONFIG)
    assert [buffers.bucket(bs) for bs in range(1, 7)] == [1, 2, 4, 4, 6, 6]


def test_the_whole_padded_tail_is_scrubbed():
    buffers, feeder = Buffers(CONFIG), Feeder(CONFIG, 0)
    for tensor in buffers.tensors().values():
        tensor.fill_(7)
    batch = feeder.decode([3, 1, 2, 4, 5])
    assert buffers.fill(batch) == 6
    view = buffers.batch(6)
    assert view.req_pool_indices.tolist() == [3, 1, 2, 4, 5, 0]
    assert view.seq_lens[5] == view.accept_lengths[5] == 1
    assert not view.verify_ids[5].any()
    assert not view.hidden[5 * 4 :].any()
    for mine, theirs in zip(view.page_table, batch.page_table, strict=True):
        assert torch.equal(mine[:5], theirs)
        assert not mine[5].any()


def test_addresses_never_change_and_written_in_place_is_not_copied():
    buffers, feeder = Buffers(CONFIG), Feeder(CONFIG, 0)
    before = {name: t.data_ptr() for name, t in buffers.tensors().items()}
    for slots in ([1], [1, 2, 3, 4, 5, 6], [2, 3]):
        buffers.fill(feeder.decode(slots))
    buffers.fill(buffers.batch(3))
    assert before == {name: t.data_ptr() for name, t in buffers.tensors().items()}


@pytest.mark.parametrize("rows", [slice(0, 6, 2), slice(1, 4), slice(3, 6)])
def test_other_rows_of_the_same_buffer_are_moved(rows):
    """Also a strided view that starts where the buffer does."""
    buffers = Buffers(CONFIG)
    buffers.seq_lens.copy_(torch.arange(10, 16))
    buffers.verify_ids.copy_(torch.arange(24).view(6, 4))
    lens, ids = buffers.seq_lens[rows].tolist(), buffers.verify_ids[rows].tolist()
    buffers.fill(replace(buffers.batch(3), seq_lens=buffers.seq_lens[rows], verify_ids=buffers.verify_ids[rows]))
    assert buffers.seq_lens[:4].tolist() == [*lens, 1]
    assert buffers.verify_ids[:4].tolist() == [*ids, [0] * 4]


def test_tables_of_the_groups_do_not_overlap():
    buffers = Buffers(CONFIG)
    for g in range(2):
        buffers.table(g).fill_(g + 1)
    assert buffers.tables.unique(return_counts=True)[1].tolist() == [buffers.table(g).numel() for g in range(2)]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("verify_ids", torch.zeros(2, 3, dtype=torch.int32), r"verify_ids: expected \[2, 4\]"),
        ("seq_lens", torch.zeros(2), r"seq_lens: expected \[2\] torch.int32, got \[2\] torch.float32"),
        ("hidden", torch.zeros(2, 8, dtype=torch.bfloat16), r"hidden: expected \[8, 8\]"),
        ("page_table", (torch.zeros(2, 64, dtype=torch.int32),), "expected 2 cache groups, got 1"),
    ],
)
def test_a_batch_of_the_wrong_shape_is_named(field, value, message):
    batch = Feeder(CONFIG, 0).decode([1, 2])
    with pytest.raises(BatchError, match=message):
        Buffers(CONFIG).fill(replace(batch, **{field: value}))


def test_a_batch_beyond_the_largest_is_refused():
    with pytest.raises(BatchError, match="decode batch of 7 rows: expected 1..max_batch = 6"):
        Buffers(CONFIG).fill(Feeder(rounds_config(4, batch=7), 0).decode([1, 2, 3, 4, 5, 6, 7]))
