"""`vitro report`: a study as a static site."""
from pathlib import Path
from typing import Annotated, Optional

import typer

from ..base.inputs import require_utf8
from ..errors import ConfigError


def report(study: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that `vitro sweep --out` or `vitro search` has written.")],
           out: Annotated[Optional[Path], typer.Option(metavar="SITE", help="Folder of the site. Default: DIR/site.")] = None):
    """Write a study as a static site: a table that sorts and filters, pictures, and a page for each point with its provenance.

    Examples:

        vitro report out/policies

        vitro report out/policies --out public
    """
    from .site import write_site
    require_utf8(str(study), "DIR")
    if not study.is_dir():
        raise ConfigError(f"{study}: no such folder (expected what vitro sweep --out has written)")
    print(f"site: {write_site(study, out)}")
