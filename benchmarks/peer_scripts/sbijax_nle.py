"""sbijax: it has to be imported first."""

import _measured

TARGET = "ordinary"


def draw(y, model, seed):
    import sbijax

    raise NotImplementedError(f"sbijax {sbijax.__version__} can be imported: write this peer.")


if __name__ == "__main__":
    _measured.run(draw, ("sbijax",))
