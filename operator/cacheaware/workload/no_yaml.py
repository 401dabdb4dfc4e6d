"""Why a text is no YAML, in one line that a person can act on."""

TEMPLATE = "is no YAML, but a template ({{ }}): render it first, for example by helm template"


def why_no_yaml(text: str, error: Exception) -> str:
    """The line and the problem that a parser names; another word for templates of Helm.

    Rendered manifests may hold `{{` in their values, so only the line that is wrong counts, and
    lines that begin with it.
    """
    lines = text.splitlines()
    mark = getattr(error, "problem_mark", None)
    wrong = lines[mark.line : mark.line + 1] if mark else []
    if any("{{" in line for line in wrong) or any(one.lstrip().startswith("{{") for one in lines):
        return TEMPLATE
    if mark is None:
        return f"is no YAML: {' '.join(str(error).split())}"
    problem = " ".join(str(getattr(error, "problem", "")).split())
    return f"is no YAML: line {mark.line + 1}: {problem}"
