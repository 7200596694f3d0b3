r"""SpoolSuite: what a host that spools, and the redactors of a plugin, must hold to.

    from yarp.testing.spool import Secret, SpoolSuite

    class TestAcmeSpools(SpoolSuite):
        plugin = "acme"

        @pytest.fixture
        def calls(self):
            # calls of two conversations, as the host's `decode` gives them
            return [CallStarted("one", ...), CallStarted("two", ...)]

        @pytest.fixture
        def secrets(self):
            return [Secret(b"token=hunter2 ok\n", b"hunter2")]

A part that the plugin does not declare is skipped by name, never passed over.
Source: seed 004, "Capture before eviction" and "Namespace, permissions and access".
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from yarp.spool.receipt import CaptureState, Representation
from yarp.spool.represent import UNDECIDED_BYTES, transform
from yarp.spool.verify import verify
from yarp.spooling import open_spool
from yarp.testing.suite import PluginSuite
from yarp.types import CallStarted

if TYPE_CHECKING:
    from yarp.plugins import Plugins
    from yarp.spool.declared import Redactor, SpoolLocation

_FLOOD_BYTES = 1 << 20
_CHUNK_BYTES = 4096
_ODD = (b"", b"\n", b"\xff\x00\xfe\n", b"\xe2\x82", "日本語 😀\n".encode(), b"x" * 100)
# With every letter, since a redactor may wait for the rest of any word.
_PLAIN = "ünï: the quick brown fox jumps over a lazy dog, 3 passed (日本語)\n".encode()


@attrs.frozen
class Secret:
    """A stream, and the bytes in it that nothing kept may hold."""

    stream: bytes
    secret: bytes


class SpoolSuite(PluginSuite):
    """Inherit it as `Test<Name>`, set `plugin`, give `calls` and `secrets` where they apply."""

    policy = "default"
    """The sanitation policy that the redactors are asked for."""

    @pytest.fixture
    def calls(self) -> list[CallStarted]:
        """Calls of two conversations at least."""
        raise NotImplementedError(
            "give a fixture `calls`: a list of `CallStarted`, as the host's `decode` gives them, "
            "of two conversations at least"
        )

    @pytest.fixture
    def secrets(self) -> list[Secret]:
        """Streams that hold what the redactors are for."""
        raise NotImplementedError(
            "give a fixture `secrets`: a list of `Secret(stream, secret)`, each a stream with the "
            "bytes in it that the redactors take out"
        )

    @pytest.fixture
    def redactors(self, loaded: Plugins) -> list[Redactor]:
        """What the plugin brings for `policy`."""
        declared = loaded.redactors(self.policy)
        assert not loaded.problems, loaded.problems
        if not declared:
            pytest.skip(f"{self.plugin} brings no redactors for the policy {self.policy}")
        return declared

    @pytest.fixture
    def locations(
        self, loaded: Plugins, request: pytest.FixtureRequest
    ) -> list[tuple[CallStarted, SpoolLocation]]:
        """Each of the calls, and where its spools go."""
        if not loaded.order("yarp_spool_location"):
            pytest.skip(f"{self.plugin} says of no call where its spools go")
        calls: list[CallStarted] = request.getfixturevalue("calls")
        assert len({call.source_session_id for call in calls}) > 1, (
            "give calls of two conversations"
        )
        found = []
        for call in calls:
            call.agent = call.agent or self.plugin  # which the core does, of a decoded call
            location = loaded.spool_location(call)
            assert location is not None, f"no place for the call {call.source_call_id}"
            found.append((call, location))
        return found

    # Where spools go

    def test_spools_lie_in_their_own_conversation(
        self, locations: list[tuple[CallStarted, SpoolLocation]]
    ) -> None:
        """What one conversation printed lives and goes with it, and counts for it alone."""
        owners: dict[str, set[str]] = {}
        for call, location in locations:
            assert os.path.isabs(location.directory), location.directory
            assert location.job_bytes > 0
            assert location.conversation_bytes >= location.job_bytes
            conversation = location.conversation or location.directory
            assert os.path.commonpath([conversation, location.directory]) == conversation
            owners.setdefault(conversation, set()).add(call.source_session_id)
        assert all(len(sessions) == 1 for sessions in owners.values()), (
            "conversations share a place"
        )

    def test_a_call_of_another_host_has_no_place_here(
        self, loaded: Plugins, locations: list[tuple[CallStarted, SpoolLocation]]
    ) -> None:
        """Plugins are asked in order, and the first answer wins."""
        call, _ = locations[0]
        other = CallStarted(
            call.source_session_id,
            call.source_call_id,
            call.tool_name,
            call.input,
            agent="yarp-no-such-host",
        )
        assert loaded.spool_location(other) is None

    def test_what_yarp_receipt_lists_holds_the_spools(
        self, loaded: Plugins, locations: list[tuple[CallStarted, SpoolLocation]]
    ) -> None:
        """A user names no directory to find what was captured."""
        host = loaded.hosts().get(self.plugin)
        if host is None or host.spools is None:
            pytest.skip(f"{self.plugin} declares no spools")
        roots = [os.path.realpath(root) for root in host.spools()]
        for _, location in locations:
            where = os.path.realpath(location.directory)
            assert any(os.path.commonpath([root, where]) == root for root in roots), where

    # Redactors

    def test_redactors_have_names_and_bounded_windows(self, redactors: list[Redactor]) -> None:
        """What cannot be decided within the window is left out, so it must be small."""
        names = [redactor.name for redactor in redactors]
        assert len(set(names)) == len(names)
        for redactor in redactors:
            assert 0 < redactor.window_bytes <= UNDECIDED_BYTES, redactor.name

    def test_a_secret_does_not_pass_at_any_split(
        self, redactors: list[Redactor], secrets: list[Secret]
    ) -> None:
        """A pipe cuts where it likes; what was given out once cannot be taken back."""
        assert secrets, "the list of secrets is empty"
        for secret in secrets:
            assert secret.secret in secret.stream, "the secret is not in its stream"
            for chunks in _splits(secret.stream):
                kept = _kept(redactors, chunks)
                assert secret.secret not in kept, f"it passes at {[*map(len, chunks)]}"

    def test_any_chunking_gives_the_same_bytes(
        self, redactors: list[Redactor], secrets: list[Secret]
    ) -> None:
        """How a pipe cuts the stream means nothing."""
        for stream in (*(secret.stream for secret in secrets), *_ODD):
            whole = _kept(redactors, [stream])
            whole.decode()
            for chunks in _splits(stream):
                assert _kept(redactors, chunks) == whole, [*map(len, chunks)]

    def test_what_holds_no_secret_stays_as_it_is(self, redactors: list[Redactor]) -> None:
        """Only secrets go, wherever the stream ends."""
        assert _kept(redactors, [_PLAIN * 50]) == _PLAIN * 50
        text = _PLAIN.decode()
        for end in range(len(text)):
            plain = text[:end].encode()
            assert _kept(redactors, [plain]) == plain

    def test_no_more_than_the_window_is_held_back(
        self, redactors: list[Redactor], secrets: list[Secret]
    ) -> None:
        """A line without end must neither fill the memory nor keep a reader waiting for ever."""
        for redactor in redactors:
            for start in (b"", *(secret.stream for secret in secrets)):
                one: Any = redactor.make()
                one.feed(start)
                for _ in range(0, _FLOOD_BYTES, _CHUNK_BYTES):
                    one.feed(b"x" * _CHUNK_BYTES)
                    if one.held > redactor.window_bytes:
                        break  # YARP drops it here, with what it holds
                    assert one.held >= 0, redactor.name
                one.finish()

    def test_a_plain_flood_is_not_left_out(self, redactors: list[Redactor]) -> None:
        """A redactor that holds all that it sees would leave nothing of a long line."""
        one = transform(Representation.REDACTED_TEXT, redactors)
        kept = sum(len(one.feed(b"a b " * (_CHUNK_BYTES // 4))) for _ in range(64))
        kept += len(one.finish(ended=True))
        assert one.omitted == 0
        assert kept == 64 * _CHUNK_BYTES

    # A whole capture

    def test_a_capture_is_private_counted_and_published_once(
        self, loaded: Plugins, locations: list[tuple[CallStarted, SpoolLocation]]
    ) -> None:
        """In the host's own place, under a umask that would open everything to everybody."""
        call, location = locations[0]
        before = os.umask(0)
        try:
            spool = open_spool(call, plugins=loaded, sanitation=self.policy, report=pytest.fail)
            for at in range(0, len(_PLAIN), 7):
                spool.take(0, _PLAIN[at : at + 7])
                seen = spool.accounting(0)
                assert seen.observed == seen.accepted + seen.pending + seen.discarded
            spool.ended(0)
            spool.ended(1)
            receipt = spool.finish(exit_code=3)
        finally:
            os.umask(before)
        assert (receipt.capture, receipt.capture_reason) == (CaptureState.COMPLETE, None)
        assert (receipt.exit_code, receipt.source_call_id) == (3, call.source_call_id)
        conversation = location.conversation or location.directory
        path = os.path.join(conversation, str(receipt.streams[0].reference))
        with open(path, "rb") as file:
            assert file.read() == _PLAIN
        report = verify(location.directory)
        assert (report.published, report.problems) == (1, ())
        files = _files(location.directory)
        spool.take(0, b"too late")
        assert spool.finish(exit_code=0) == receipt
        assert _files(location.directory) == files, "what was published has changed"

    def test_a_secret_is_in_no_file_of_a_capture(
        self,
        loaded: Plugins,
        locations: list[tuple[CallStarted, SpoolLocation]],
        redactors: list[Redactor],  # noqa: ARG002 - asked for: without any there is nothing to show
        secrets: list[Secret],
    ) -> None:
        """Neither in a stream nor in a label, at the end as at any moment before."""
        call, location = locations[-1]
        for secret in secrets:
            label = secret.stream.decode("utf-8", "replace")
            spool = open_spool(
                call, plugins=loaded, sanitation=self.policy, label=label, report=pytest.fail
            )
            for at in range(len(secret.stream)):
                spool.take(0, secret.stream[at : at + 1])
            for ended in (False, True):
                if ended:
                    spool.finish(exit_code=0)
                for name, data in _files(location.directory).items():
                    assert secret.secret not in data, f"it is in {name.partition('.')[2]}"


def _files(directory: str) -> dict[str, bytes]:
    found = {}
    for name in os.listdir(directory):
        with open(os.path.join(directory, name), "rb") as file:
            found[name] = file.read()
    return found


def _splits(stream: bytes) -> list[list[bytes]]:
    """The stream whole, in every two parts, byte by byte, and in three parts by chance."""
    length = len(stream)
    cut = [[stream], [stream[at : at + 1] for at in range(length)]]
    cut += [[stream[:at], stream[at:]] for at in range(1, length)]
    rng = random.Random(length)  # noqa: S311 - the same splits every time
    for _ in range(50 if length > 2 else 0):
        first, second = sorted(rng.sample(range(1, length), 2))
        cut.append([stream[:first], stream[first:second], stream[second:]])
    return cut


def _kept(redactors: list[Redactor], chunks: list[bytes]) -> bytes:
    """What a spool would keep of a stream that comes in these chunks."""
    one = transform(Representation.REDACTED_TEXT, redactors)
    return b"".join([*map(one.feed, chunks), one.finish(ended=True)])
