"""``doctor``: the usual mistakes of an adapter, before the gate meets them."""

from __future__ import annotations

import typer

from frontier_oracle.property_tests.cli import exits
from frontier_oracle.property_tests.cli.options import Format, FormatOption, SystemsOption, own_stdout


def doctor(system: SystemsOption = None, format: FormatOption = Format.TABLE) -> int:
    """Examine an adapter: signature, methods, shapes, dtypes, determinism, host reads. Exit 1 if something is wrong;
    each line says how to mend it."""
    exits.need_torch()
    from frontier_oracle.property_tests.doctor import examine
    from frontier_oracle.property_tests.registry import DEFAULT, load_system
    from frontier_oracle.property_tests.render import examined

    with own_stdout():
        found = {name: examine(load_system(name)) for name in system or DEFAULT}
    typer.echo(examined.as_json(found) if format is Format.JSON else examined.render(found))
    healthy = all(diagnosis.ok for diagnoses in found.values() for diagnosis in diagnoses)
    return exits.EQUAL if healthy else exits.DIVERGENCE
