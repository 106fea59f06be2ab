"""The stubs name what the package has, and nothing else."""

import ast
import importlib.resources
import unittest

import everbyte


def public(names):
    return {name for name in names if not name.startswith("_")}


class Stubs(unittest.TestCase):
    def setUp(self):
        folder = importlib.resources.files("everbyte")
        self.tree = ast.parse(folder.joinpath("__init__.pyi").read_text())
        self.assertTrue(folder.joinpath("py.typed").is_file())

    def test_every_name_of_the_package_has_a_stub(self):
        stubs = [node.name for node in self.tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
        self.assertEqual(public(stubs), set(everbyte.__all__))

    def test_every_method_has_a_stub(self):
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.endswith("Error"):
                stubs = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
                own = getattr(everbyte, node.name)
                self.assertEqual(public(stubs), public(vars(own)), node.name)
                self.assertTrue(stubs <= set(dir(own)), node.name)


if __name__ == "__main__":
    unittest.main()
