"""YARP for Acme: what its events mean, and what it withholds."""

from yarp.plugin import CallEnded, CallStarted, Host, hookimpl


def decode(event: dict) -> CallStarted | CallEnded | None:
    """The start or the end of a call that an event of Acme tells of."""
    match event.get("kind"):
        case "begin":
            return CallStarted(event["chat"], event["id"], event["tool"], event["args"])
        case "end":
            return CallEnded(event["chat"], event["id"], event["out"], event["failed"])
    return None


@hookimpl
def yarp_host() -> Host:
    """Declare Acme."""
    return Host(
        "acme",
        title="Acme",
        shell_tools={"sh": "command"},
        decode=decode,
        withholds=["Acme tells nothing of separate stdout and stderr streams."],
    )
