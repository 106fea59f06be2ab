"""The package, tried call by call. Run with `python -m unittest discover -s python/tests`."""

import os
import subprocess
import sys
import tempfile
import threading
import unittest

import everbyte


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "store")
        self.store = everbyte.open(self.path, create=True, max_size=1 << 30)
        self.kv = self.store.kv()

    def tearDown(self):
        self.kv.close()
        self.store.close()
        self.folder.cleanup()


class Mapping(Case):
    def test_a_table_is_a_mapping(self):
        kv = self.kv
        kv[b"b"] = b"2"
        kv[b"a"] = b"1"
        self.assertEqual((kv[b"a"], kv.get(b"b"), kv.get(b"c"), kv.get(b"c", 7)), (b"1", b"2", None, 7))
        self.assertEqual((len(kv), list(kv), b"a" in kv, b"c" in kv), (2, [b"a", b"b"], True, False))
        self.assertEqual(dict(kv.items()), {b"a": b"1", b"b": b"2"})
        del kv[b"a"]
        with self.assertRaises(KeyError):
            kv[b"a"]
        with self.assertRaises(KeyError):
            del kv[b"a"]
        with self.assertRaises(TypeError):
            kv["text"] = b"1"

    def test_ranges_and_prefixes_go_both_ways(self):
        for key in [b"a", b"b/1", b"b/2", b"c"]:
            self.kv[key] = b""
        keys = lambda entries: [key for key, _ in entries]
        self.assertEqual(keys(self.kv.range(b"b", b"c")), [b"b/1", b"b/2"])
        self.assertEqual(keys(self.kv.range(high=b"b/2", reverse=True)), [b"b/1", b"a"])
        self.assertEqual(keys(self.kv.prefix(b"b/")), [b"b/1", b"b/2"])
        self.assertEqual(keys(self.kv.prefix(b"b/", reverse=True)), [b"b/2", b"b/1"])

    def test_tables_are_apart(self):
        stock = self.kv.table("stock")
        stock[b"apples"] = b"97"
        self.assertEqual((self.kv.tables(), len(self.kv), stock.name), (["stock"], 0, "stock"))
        with self.assertRaises(everbyte.NotFoundError):
            self.kv.table("none", create=False)
        with self.assertRaises(ValueError):
            stock.transaction()
        self.kv.drop_table("stock")
        with self.assertRaises(everbyte.NotFoundError):
            stock[b"apples"]

    def test_a_view_stays_as_it_is(self):
        stock = self.kv.table("stock")
        self.kv[b"a"] = stock[b"a"] = b"old"
        with self.kv.snapshot() as view:
            shelf = view.table(stock)
            self.kv[b"a"] = stock[b"a"] = b"new"
            self.assertEqual((view[b"a"], shelf[b"a"], self.kv[b"a"], len(view)), (b"old", b"old", b"new", 1))
            shelf.close()
        with self.assertRaises(everbyte.EverbyteError):
            view[b"a"]


class Transactions(Case):
    def test_a_block_commits_or_gives_up(self):
        stock = self.kv.table("stock")
        with self.kv.transaction() as tx:
            tx[b"order"] = b"3 apples"
            tx.put(b"apples", b"97", stock)
            self.assertEqual((tx[b"order"], tx.get(b"apples", stock)), (b"3 apples", b"97"))
            self.assertEqual((self.kv.get(b"order"), stock.get(b"apples")), (None, None))
        self.assertEqual((self.kv[b"order"], stock[b"apples"]), (b"3 apples", b"97"))
        with self.assertRaises(ZeroDivisionError):
            with self.kv.transaction() as tx:
                tx[b"order"] = b"none"
                1 / 0
        self.assertEqual(self.kv[b"order"], b"3 apples")
        with self.assertRaises(everbyte.EverbyteError):
            tx.commit()

    def test_savepoints_and_ranges(self):
        with self.kv.transaction() as tx:
            for key in b"abcdef":
                tx[bytes([key])] = b""
            here = tx.savepoint()
            self.assertEqual(tx.delete_range(b"b", b"e"), 3)
            tx.roll_back(here)
            self.assertEqual(tx.delete_range(b"e"), 2)
            self.assertFalse(tx.delete(b"z"))
            with self.assertRaises(ValueError):
                tx.roll_back(9)
        self.assertEqual(list(self.kv), [b"a", b"b", b"c", b"d"])

    def test_entries_are_loaded_in_bulk_or_not_at_all(self):
        entries = lambda low, high: ((b"%06d" % n, b"value") for n in range(low, high))

        def fails():
            yield b"100000", b""
            1 / 0

        def uses(tx):
            with self.assertRaises(everbyte.BusyError):
                tx.get(b"a")
            with self.assertRaises(everbyte.BusyError):
                tx.abort()
            yield b"200000", b""

        stock = self.kv.table("stock")
        with self.kv.transaction() as tx:
            self.assertEqual(tx.load(entries(0, 5000)), 5000)
            self.assertEqual(tx.load([(b"a", b"1")], stock), 1)
            for wrong in [[(b"x", b""), (b"w", b"")], [(b"000001", b"")]]:
                with self.assertRaises(everbyte.EverbyteError):
                    tx.load(wrong)
            for wrong in [[b"no pair"], [("text", b"")], 7]:
                with self.assertRaises(TypeError):
                    tx.load(wrong)
            with self.assertRaises(ZeroDivisionError):
                tx.load(fails())
            self.assertEqual(tx.load(uses(tx)), 1)
        self.assertEqual((len(self.kv), self.kv.get(b"100000"), stock[b"a"]), (5001, None, b"1"))

    def test_a_write_beside_the_transaction_of_its_thread_is_an_error(self):
        with self.kv.transaction() as tx:
            for call in [
                lambda: self.kv.__setitem__(b"a", b"1"),
                lambda: self.kv.transaction(),
                lambda: self.kv.table("new"),
                lambda: self.kv.name_version("v"),
            ]:
                with self.assertRaises(everbyte.BusyError):
                    call()
            tx[b"a"] = b"2"
        self.kv[b"a"] = b"3"

    def test_threads_take_turns_and_lose_no_increment(self):
        self.kv[b"n"] = b"0"

        def count():
            for _ in range(50):
                with self.kv.transaction() as tx:
                    tx[b"n"] = b"%d" % (int(tx[b"n"]) + 1)
                    # The end of another thread's transaction takes nothing from this one.
                    with self.assertRaises(everbyte.BusyError):
                        self.kv[b"beside"] = b""

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.kv[b"n"], b"200")


class Days(Case):
    def test_a_compaction_gives_space_back_and_changes_no_entry(self):
        with self.kv.transaction() as tx:
            tx.load((b"%06d" % n, b"value") for n in range(3000))
            for n in range(3000):
                if n % 3:
                    tx.delete(b"%06d" % n)
            with self.assertRaises(everbyte.BusyError):
                self.kv.compact()
        before = dict(self.kv.items())
        done = self.kv.compact()
        self.assertTrue(0 < done["written"] < done["replaced"] and done["after"] < done["before"], done)
        self.assertEqual(dict(self.kv.items()), before)
        self.assertEqual(self.kv.compact()["replaced"], 0)
        with self.assertRaises(ValueError):
            self.kv.table("stock").compact()

    def test_versions_with_names(self):
        self.kv[b"a"] = b"old"
        self.kv.name_version("monday")
        self.kv[b"a"] = b"new"
        with self.assertRaises(everbyte.ExistsError):
            self.kv.name_version("monday")
        with self.kv.open_version("monday") as view:
            self.assertEqual((self.kv.versions(), view[b"a"]), (["monday"], b"old"))
        self.kv.restore_version("monday")
        self.assertEqual(self.kv[b"a"], b"old")
        self.kv.remove_version("monday")
        with self.assertRaises(everbyte.NotFoundError):
            self.kv.open_version("monday")

    def test_a_store_is_there_after_a_kill(self):
        self.kv.close()
        self.store.close()
        code = (
            "import everbyte, os, sys\n"
            "kv = everbyte.open(sys.argv[1]).kv()\n"
            "kv[b'settled'] = b'yes'\n"
            "tx = kv.transaction(); tx[b'open'] = b'no'\n"
            "os.kill(os.getpid(), 9)\n"
        )
        killed = subprocess.run([sys.executable, "-c", code, self.path])
        self.assertEqual(killed.returncode, -9)
        self.store = everbyte.open(self.path)
        self.kv = self.store.kv()
        self.assertEqual(list(self.kv.items()), [(b"settled", b"yes")])

    def test_a_store_closes_its_tables(self):
        stock = self.kv.table("stock")
        stock[b"a"] = b"1"
        self.store.close()
        for table in [self.kv, stock]:
            with self.assertRaises(everbyte.EverbyteError):
                table[b"a"] = b"2"
        self.store.close()
        self.store = everbyte.open(self.path)
        self.kv = self.store.kv()
        self.assertEqual(self.kv.table("stock")[b"a"], b"1")

    def test_wrong_use_is_an_error(self):
        with self.assertRaises(everbyte.BusyError):
            self.store.kv()
        with self.assertRaises(everbyte.EverbyteError):
            everbyte.open(os.path.join(self.folder.name, "absent"))
        with self.assertRaises(everbyte.NotFoundError):
            self.store.kv("absent", create=False)
        self.kv.close()
        with self.assertRaises(everbyte.EverbyteError):
            self.kv[b"a"]
        with self.store.kv() as kv:
            kv[b"a"] = b"1"


if __name__ == "__main__":
    unittest.main()
