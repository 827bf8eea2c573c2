"""LaTeX formulas as Unicode, for terminals.

pylatexenc reads them and knows the symbols; fractions, roots and scripts are set
here, so that no formula says something else on one line: a fraction gets the brackets that it needs, and so does a script that
Unicode has no letters for.
"""

import functools
import re
from collections.abc import Collection, Sequence
from typing import Any

from pylatexenc import latex2text, latexwalker
from pylatexenc.macrospec import std_macro

_MATH = re.compile(r"\$\$(.+?)\$\$|\$(.+?)\$", re.DOTALL)
_SUBSCRIPTS = dict(zip("0123456789+-=()aehijklmnoprstuvxβγρφχ", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓᵦᵧᵨᵩᵪ", strict=True))
_SUPERSCRIPTS = dict(
    zip(
        "0123456789+-=()abcdefghijklmnoprstuvwxyzABDEGHIJKLMNOPRTUVWβγδθ⊤*'",
        "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁⱽᵂᵝᵞᵟᶿᵀ*'",
        strict=True,
    )
)
_ACCENTS = {
    "hat": "\u0302",
    "tilde": "\u0303",
    "bar": "\u0304",
    "widehat": "\u0302",
    "overline": "\u0304",
    "dot": "\u0307",
}
_SPACES = {
    "thinspace": " ", "thickspace": " ", "quad": "  ", "qquad": "   ", " ": " ", ",": " ", ";": " ", ":": " ", "!": "",
    "cr": "; ", "\\": "; ", "displaystyle": "",
}  # fmt: skip
_SIZES = re.compile(r"(left|right|[bB]ig{1,2}[lrm]?)$")
_FIXED = {
    "epsilon": "ε", "phi": "φ", "ast": "*", "lbrace": "{", "rbrace": "}", "top": "⊤", "Vert": "‖", "mid": " | ", "ne": "≠",
    "implies": "⇒", "iff": "⇔", "cot": "cot", "dim": "dim",
}  # fmt: skip
_WORDS = {"text", "mathrm", "operatorname", "texttt", "textbf", "mathbf", "mathit", "textit"}
_FRACTIONS = {"frac", "dfrac", "tfrac"}
_AFTER_FRACTION = set("+-=<>≤≥≠≈∼~,.;:)]}⟩|‖ \n&→∈≪≫·×±≐⇒⇔")


@functools.cache
def _grammar() -> Any:
    found = latexwalker.get_default_latex_context_db()
    own = [std_macro(name, False, 2) for name in ("binom", *_FRACTIONS)]
    own += [std_macro(name, False, 1) for name in ("tag", "underbrace", "operatorname")]
    found.add_context_category("dptheory", macros=own, prepend=True)
    return found


@functools.cache
def _plain_text() -> Any:
    return latex2text.LatexNodes2Text(math_mode="text", keep_comments=True)


def unicode_text(markdown: str) -> str:
    """Markdown text with its formulas as Unicode; a displayed formula gets a paragraph of its own, set in by four spaces."""
    return _MATH.sub(lambda found: f"\n\n    {formula(found[1])}\n\n" if found[1] else formula(found[2]), markdown)


@functools.cache
def formula(latex: str) -> str:
    """One formula, without its dollar signs, on one line; the source where it is no LaTeX."""
    try:
        text = _sequence(latexwalker.LatexWalker(latex.strip(), latex_context=_grammar()).get_latex_nodes()[0])
    except (latexwalker.LatexWalkerError, IndexError):  # arguments are missing
        return latex
    text = re.sub(r" *(:=|[=≤≥≠≈∼→∈≪≫∝⪰≽<>⇒⇔⟹]) *", r" \1 ", text)
    return re.sub(r"\s+([.,;])", r"\1", " ".join(text.split()))


def _sequence(nodes: Sequence[Any]) -> str:
    units = [unit for node in nodes for unit in _units(node)]
    out, word, raw, rooted = "", False, False, False
    i = 0
    while i < len(units):
        unit, i = units[i], i + 1
        if _is_script(unit):
            while i < len(units) and isinstance(units[i], str) and units[i] == " ":
                i += 1
            argument = _one(units[i]) if i < len(units) else ""
            piece, i = _script(unit, argument), i + 1
            raw = piece[:1] in ("^", "_")
            out += piece
            continue
        piece = _one(unit)
        if not piece:
            continue
        if _is(unit, _FRACTIONS) and (word or out.endswith("/") or _goes_on(units[i:])):
            piece, word = f"({piece})", False
        letter = piece[0].isalnum()
        is_word = len(piece) > 1 and piece.isalpha()
        if (word and (letter or piece[0] in "√‖⟨|∑")) or (raw and letter) or (is_word and out[-1:].isalnum()):
            out += " "
        out += f"·{piece}" if rooted and (letter or piece[0] in "√∑") else piece
        word, raw, rooted = is_word, False, _is(unit, {"sqrt"}) and not piece.endswith(")")
    return out


def _units(node: Any) -> list[Any]:
    """Characters one by one, so that a script takes the next of them; anything else as it is."""
    if node is None:
        return []
    if node.isNodeType(latexwalker.LatexCharsNode):
        return list(re.sub(r"\s+", " ", node.chars))
    return [node]


def _one(unit: Any) -> str:
    if isinstance(unit, str):
        return unit
    if unit.isNodeType(latexwalker.LatexMacroNode):
        return _macro(unit.macroname, [one for one in (unit.nodeargd.argnlist if unit.nodeargd else []) if one], unit)
    if unit.isNodeType(latexwalker.LatexGroupNode):
        return _sequence(unit.nodelist)
    if unit.isNodeType(latexwalker.LatexEnvironmentNode):
        return f"{{ {_sequence(unit.nodelist)} "
    return "  " if getattr(unit, "specials_chars", "") == "&" else str(_plain_text().nodelist_to_text([unit]))


def _macro(name: str, arguments: list[Any], node: Any) -> str:
    if name in _SPACES:
        return _SPACES[name]
    if _SIZES.match(name):
        return ""
    inner = [_sequence([one]).strip() for one in arguments]
    if name in _FRACTIONS:
        return f"{inner[0] if _is_product(inner[0]) else f'({inner[0]})'}/{_bracketed(inner[1])}"
    if name == "binom":
        return f"({inner[0]} choose {inner[1]})"
    if name == "sqrt":
        root = "√" if len(inner) == 1 else f"{_script('^', inner[0])}√"
        return f"{root}{inner[-1] if len(inner[-1]) == 1 or inner[-1].isdigit() else f'({inner[-1]})'}"
    if name in _ACCENTS:
        return inner[0][:1] + _ACCENTS[name] + inner[0][1:]
    if name in _WORDS:
        return _sequence(arguments)
    if name == "underbrace":
        return f"({inner[0]})"
    if name == "tag":
        return f"   ({inner[0]})"
    known = _FIXED.get(name) or str(_plain_text().nodelist_to_text([node])).strip()
    return (
        known or f"\\{name} "
    )  # pylatexenc leaves out what it does not know: a sign that vanishes turns a formula round


def _is(unit: Any, macros: Collection[str]) -> bool:
    return getattr(unit, "macroname", None) in macros


def _is_script(unit: Any) -> bool:
    return isinstance(unit, str) and unit in "^_"


def _goes_on(units: Sequence[Any]) -> bool:
    """Whether what follows a fraction belongs to the same product, or is a power of it."""
    for unit in units:
        if _is_script(unit):
            return True
        if piece := _one(unit).strip():
            return piece[0] not in _AFTER_FRACTION
    return False


def _is_product(text: str) -> bool:
    """Whether a numerator needs no brackets: no sum and no quotient outside brackets of its own."""
    before = None
    while before != text:
        before, text = text, re.sub(r"\([^()]*\)|\[[^\[\]]*\]", "", text)
    return re.search(r"[-+±/=≤≥<>,∑ |]", text) is None


def _bracketed(text: str) -> str:
    """A denominator: brackets around what is no single factor."""
    letter = r"\w[\u0302-\u0304\u0307]?[′'*]*"
    scripts = r"(_\w)?[⁰¹²³⁴⁵⁶⁷⁸⁹ᵃ-ᶻᴬ-ᵂₐ-ₜ₀-₉ᵢⱼᵣᵤᵥ]*"
    return text if re.fullmatch(rf"[\d.]+|√?{letter}{scripts}", text) else f"({text})"


def _script(kind: str, text: str) -> str:
    letters = _SUBSCRIPTS if kind == "_" else _SUPERSCRIPTS
    text = text.strip()
    if all(letter in letters for letter in text):
        return "".join(letters[letter] for letter in text)
    return f"{kind}{text}" if len(text) == 1 or text.isalnum() else f"{kind}({text})"
