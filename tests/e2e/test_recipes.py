# SPDX-License-Identifier: Apache-2.0
"""The Dockerfile and the conda recipe, as far as they can be tested without Docker and conda."""

import re
import stat
import subprocess
import unittest

import peers
import stand_in_wheel
import yaml
from program import MEMREEL, REPOSITORY, SAMPLES, ProgramTest, run

DOCKER = REPOSITORY / "cmake/docker"
RECIPE = REPOSITORY / "cmake/conda/recipe.yaml"
VERSION = re.search(r"project\(memreel VERSION ([\d.]+)", (REPOSITORY / "CMakeLists.txt").read_text())[1]


class Image(ProgramTest):
    STEPS = [line.split(" ", 1) for line in (DOCKER / "Dockerfile").read_text().splitlines() if line and not line.startswith("#")]

    def arguments(self, word):
        return [rest for said, rest in self.STEPS if said == word]

    def test_the_wheel_lies_as_an_installation_does(self):
        prefix = self.directory / "opt/memreel"
        subprocess.run([DOCKER / "unpack_wheel.sh", stand_in_wheel.make(self.directory), prefix], check=True)
        program = prefix / "bin/memreel"
        self.assertTrue(program.stat().st_mode & stat.S_IXUSR)
        said = subprocess.run([program, "info", SAMPLES / "gpt_default.reel"], capture_output=True, text=True)
        self.assertEqual((said.returncode, said.stdout), (0, run("info", SAMPLES / "gpt_default.reel").stdout))
        self.assertTrue((prefix / "share/memreel/python/memreel/__init__.py").exists())
        self.assertTrue((prefix / "share/memreel/samples").is_dir())
        self.assertEqual({path.name for path in self.directory.iterdir()} - {"opt"}, {"memreel-0.1.0-py3-none-any.whl"})

    def test_its_steps_use_what_is_there(self):
        for script in re.findall(r"(?:\./|cmake/)\S+", " ".join(self.arguments("RUN"))):
            self.assertTrue((REPOSITORY / script).exists(), script)
        self.assertRegex((REPOSITORY / "dev").read_text(), r"\n    wheel\) wheel \"\$@\" ;;")
        # The first image builds the wheel, and the programs are where the second one looks for them.
        self.assertEqual(self.arguments("FROM"), ["debian:12 AS build", "debian:12-slim"])
        self.assertIn("--from=build /opt/memreel /opt/memreel", self.arguments("COPY"))
        self.assertEqual(self.arguments("ENV"), ["PATH=/opt/memreel/bin:$PATH"])
        self.assertEqual(self.arguments("ENTRYPOINT"), ['["memreel"]'])


class Conda(unittest.TestCase):
    def test_the_recipe(self):
        recipe = yaml.safe_load(RECIPE.read_text())
        self.assertEqual(recipe["context"]["version"], VERSION)
        self.assertEqual((RECIPE.parent / recipe["source"]["path"]).resolve(), REPOSITORY)
        self.assertTrue((REPOSITORY / recipe["about"]["license_file"]).exists())
        self.assertIn(recipe["about"]["license"], (REPOSITORY / "pyproject.toml").read_text())
        # The build uses existing options.
        built_by = re.search(r'requires = \["([^"]+)>=([^"]+)"\]', (REPOSITORY / "pyproject.toml").read_text())
        self.assertIn(f"{built_by[1]} >={built_by[2]}", recipe["requirements"]["host"])
        options = (REPOSITORY / "cmake/MemreelOptions.cmake").read_text()
        for switch in re.findall(r"cmake\.define\.(\w+)=", " ".join(recipe["build"]["script"])):
            self.assertIn(f"option({switch} ", options)

    def test_its_commands_answer(self):
        commands = [line for part in yaml.safe_load(RECIPE.read_text())["tests"] for line in part.get("script", [])]
        self.assertGreater(len(commands), 0)
        for line in commands:
            program, *arguments = line.split()
            self.assertEqual((program, run(*arguments).returncode), ("memreel", 0), line)


class RattlerBuild(unittest.TestCase):
    def test_it_renders_the_recipe(self):
        python = peers.python_with("py-rattler-build")
        program = f"""
from rattler_build import Stage0Recipe, VariantConfig
variants = VariantConfig({{"python": ["3.12.*"], "cxx_compiler": ["gxx"], "c_stdlib": ["sysroot"], "c_stdlib_version": ["2.28"]}})
rendered, = Stage0Recipe.from_file({str(RECIPE)!r}).render(variants)
print(rendered.recipe.package.name, rendered.recipe.package.version)
"""
        said = subprocess.run([python, "-c", program], capture_output=True, text=True)
        self.assertEqual(said.stdout, f"memreel {VERSION}\n", said.stderr)


if __name__ == "__main__":
    unittest.main()
