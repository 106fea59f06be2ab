"""The examples of docs/manual/python.md run as they stand."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PAGE = pathlib.Path(__file__).parents[2] / "docs/manual/python.md"


class Manual(unittest.TestCase):
    def test_the_examples_run(self):
        examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
        self.assertEqual(len(examples), 5)
        said = []
        for code in examples:
            with tempfile.TemporaryDirectory() as folder:
                run = [sys.executable, "-c", code]
                said.append(subprocess.run(run, cwd=folder, check=True, capture_output=True, text=True).stdout)
        shop, shelve_before, shelve_after, sqlite_before, sqlite_after = said
        self.assertEqual(shop, "b'order 1' b'3 apples'\n")
        self.assertEqual((shelve_before, sqlite_before), (shelve_after, sqlite_after))


if __name__ == "__main__":
    unittest.main()
