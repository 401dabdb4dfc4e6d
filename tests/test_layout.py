from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_operator_is_no_package_so_that_pythons_own_operator_module_stays_in_reach():
    assert not (ROOT / "operator" / "__init__.py").exists()
