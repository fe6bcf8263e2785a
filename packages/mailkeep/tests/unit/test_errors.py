"""The vocabulary of failures."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest

import mailkeep
from mailkeep.errors import MailkeepError, ReaderError, all_error_classes


@pytest.mark.spec("MCP-130")
def test_codes_have_five_digits_and_belong_to_one_class_each() -> None:
    """A code is allocated once, is inherited by nobody, and is explained by its class."""
    classes = all_error_classes()
    codes = [cls.code for cls in classes]
    assert len(codes) == len(set(codes))
    for cls in classes:
        assert 10000 <= cls.code <= 99999
        assert "code" in vars(cls), f"{cls.__name__} inherits its code"
        assert cls.__doc__


def test_the_published_category_is_the_reader_family() -> None:
    """Exactly the reader errors have codes of category 5."""
    for cls in all_error_classes():
        assert issubclass(cls, ReaderError) is (cls.code // 10000 == 5)


def test_a_failure_shows_its_message() -> None:
    """What is raised reads as its operator-safe sentence."""
    assert str(MailkeepError("a sentence")) == "a sentence"


def test_no_code_is_allocated_outside_the_one_module() -> None:
    """A refinement of a class elsewhere keeps its parent's code, so that the reference is complete."""
    for module in pkgutil.walk_packages(mailkeep.__path__, "mailkeep."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)

    def walk(cls: type[MailkeepError]) -> Iterator[type[MailkeepError]]:
        for child in cls.__subclasses__():
            yield child
            yield from walk(child)

    elsewhere = [cls for cls in walk(MailkeepError) if cls.__module__ != MailkeepError.__module__]
    assert [cls.__name__ for cls in elsewhere if "code" in vars(cls)] == []
