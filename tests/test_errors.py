import inspect

from yarp import errors


def test_every_error_stands_in_the_drawn_tree_with_its_exit_code():
    drawn = {}
    for line in (errors.__doc__ or "").splitlines():
        words = line.split()
        if len(words) > 1 and inspect.isclass(getattr(errors, words[0], None)):
            drawn[words[0]] = int(words[1])
    defined = {
        name: value.exit_code
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.YarpError)
    }
    assert drawn == defined
