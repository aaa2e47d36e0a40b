"""Data classes that cost nothing to define, and quantiles without numpy.ma: as those of the libraries."""

import dataclasses
import inspect
import pickle

import pytest

from calcli.fast_dataclass import dataclass


@dataclass(frozen=True)
class Point:
    """Two fields, one with a default that is made anew."""

    x: int
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Named(Point):
    """A class of the standard library upon ours."""

    name: str = "p"


@dataclass(frozen=True, kw_only=True)
class Deep(Named):
    """And ours upon it."""

    z: int


@dataclass
class Loose:
    """One that may be changed."""

    x: int = 1

    def __post_init__(self):
        self.double = 2 * self.x


def test_a_data_class_is_as_that_of_the_standard_library():
    assert repr(Deep(1, z=4)) == "Deep(x=1, tags=[], name='p', z=4)"
    assert Point(1) == Point(1) != Point(2) and Point(1) != Named(1)
    assert Point(1).tags is not Point(1).tags
    assert hash(Point(1, ())) == hash(Point(1, ()))
    assert dataclasses.replace(Point(1), x=3) == Point(3) and dataclasses.asdict(
        Point(1)
    ) == {"x": 1, "tags": []}
    assert pickle.loads(pickle.dumps(Deep(1, ["a"], z=2))) == Deep(1, ["a"], z=2)
    assert (
        str(inspect.signature(Point)) == "(x: int, tags: list[str] = <factory>) -> None"
    )
    assert [p.kind.name for p in inspect.signature(Deep).parameters.values()][
        -1
    ] == "KEYWORD_ONLY"
    for change in (lambda p: setattr(p, "x", 2), lambda p: delattr(p, "x")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change(Point(1))
    loose = Loose(3)
    loose.x = 4
    assert loose.double == 6
    with pytest.raises(TypeError, match="unhashable"):
        hash(loose)


@pytest.mark.parametrize(
    "given", [((), {}), ((1, [], 2), {}), ((1,), {"x": 2}), ((1,), {"y": 2})]
)
def test_arguments_that_do_not_fit_are_refused(given):
    words, named = given
    with pytest.raises(TypeError, match="Point"):
        Point(*words, **named)
