"""Commands that refuse repeated options, and name options in messages about parameters."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import typer
import typer.core

from coterie.cli.terminal.quick_imports import import_scikit_learn
from coterie.errors import InvalidParameterError
from coterie.runtime.imports import require_extra

__all__ = ["Command", "QuickCommand", "needing"]

#: How messages of the library about a parameter begin, as in supply=-1.0 and day='Monday'.
_PARAMETER = re.compile(r"(\w+)=('?)(.*?)\2: ", re.DOTALL)


class Command(typer.core.TyperCommand):
    """A command whose options have one value each, unless they may be repeated."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; refuse an option that is given twice, not to ignore a value."""
        if not ctx.resilient_parsing:
            given = self.make_parser(ctx).parse_args(args=list(args))[2]
            for option, times in Counter(given).items():
                if times > 1 and _has_one_value(option):
                    raise typer.BadParameter(
                        "it is given more than once; give one value", ctx, option
                    )
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an error about a parameter names the option of this name instead."""
        try:
            return super().invoke(ctx)
        except InvalidParameterError as error:
            raise type(error)(self._with_options(str(error))) from error

    def _with_options(self, message: str) -> str:
        parameter = _PARAMETER.match(message)
        option = parameter and f"--{parameter[1].replace('_', '-')}"
        if not parameter or not any(option in one.opts for one in self.params):
            return message
        value = parameter[3].strip("[]").replace("'", "")
        return f"{option} {value}: {message[parameter.end() :]}"


class QuickCommand(Command):
    """A command that computes with scikit-learn, and imports no more of it than it needs."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        import_scikit_learn()
        return super().invoke(ctx)


def needing(extra: str, what: str, *packages: str) -> type[Command]:
    """Return commands that run only if the packages of an extra are installed."""

    class Needing(Command):
        def invoke(self, ctx: Any) -> Any:
            require_extra(extra, what, *packages)
            return super().invoke(ctx)

    return Needing


def _has_one_value(option: Any) -> bool:
    is_flag = getattr(option, "is_flag", False) or getattr(option, "count", False)
    return option.param_type_name == "option" and not (option.multiple or is_flag)
