"""The words of a marker's search: few, and together they find what was left out."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yarp.reduce.families.base import Piece

# So many words stand in one pattern.
_TERMS = 6


def _alike(pieces: "list[Piece]") -> dict[tuple[str, ...], int]:
    """How many of the pieces have the same terms."""
    counts: dict[tuple[str, ...], int] = {}
    for piece in pieces:
        terms = tuple(piece.terms)
        counts[terms] = counts.get(terms, 0) + 1
    return counts


def found_by(terms: list[str], pieces: "list[Piece]") -> int:
    """About how many lines these words find."""
    chosen = set(terms)
    return 2 * sum(n for t, n in _alike(pieces).items() if not chosen.isdisjoint(t))


def common_terms(dropped: "list[Piece]") -> list[str]:
    """Few words that find all dropped pieces: the most shared ones first."""
    chosen: dict[str, None] = {}
    for piece in dropped:
        terms = piece.terms
        if len(terms) > 1:
            return shared_terms(dropped)
        if terms:
            chosen[terms[0]] = None
            if len(chosen) == _TERMS:
                break
    return list(chosen)


def shared_terms(dropped: "list[Piece]") -> list[str]:
    """The same, where a piece may have several terms."""
    # Many pieces, few different terms.
    alike = _alike(dropped)
    uses: dict[str, int] = {}
    for terms, count in alike.items():
        for term in terms:
            uses[term] = uses.get(term, 0) + count
    chosen: dict[str, None] = {}
    for terms in alike:
        if terms and chosen.keys().isdisjoint(terms):
            chosen[max(terms, key=uses.__getitem__)] = None
            if len(chosen) == _TERMS:
                break
    return list(chosen)
