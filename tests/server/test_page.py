"""The chat page in a headless Chromium: ask, stream, stop, regenerate, edit, reload, system prompt, several chats, keys, an
answer full of HTML and special tokens, dark and narrow. The model is a parrot whose every answer is the same.
Usage: test_page.py TENON DATA [FOLDER for pictures]"""
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import browser
from client import until
from parrots import parrot_server

TENON = sys.argv[1]
PICTURES = sys.argv[3] if len(sys.argv) > 3 else None
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
ANSWER = ["A tenon", " joins", " two", " pieces", ". ", "<img src=x onerror=alert(1)>", "<script>alert(2)</script>",
          " <|im_end|>", " &amp; ", "**strong**", " and ", "`code`", ":\n", "```c\n", "int main(void) {\n", "  return 0;\n",
          "}\n", "```\n", "Done."]
TEXT = "".join(ANSWER)


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        path = browser.find()
        if not path:
            raise unittest.SkipTest("there is no chromium")
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = parrot_server(TENON, cls.folder.name, TEMPLATE, ANSWER, "--device", "faulty:cpu,delay-ms=15", "--name",
                                   "A parrot")
        cls.url = "http://127.0.0.1:%d/" % cls.server.port
        cls.browser = browser.Browser(path)

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()
        assert cls.server.stop() == 0
        cls.folder.cleanup()

    def setUp(self):
        page = self.browser
        page.size(1000, 700)
        page.open(self.url)
        page.run("localStorage.clear(), sessionStorage.clear()")
        page.open(self.url)
        self.assertTrue(page.until("document.getElementById('model').textContent === 'A parrot'"))

    def tearDown(self):
        self.assertEqual(self.browser.faults(), [])
        self.assertTrue(all(url.startswith((self.url, "data:", "about:")) for url in self.browser.requested()))

    def ask(self, text, wait=True):
        page = self.browser
        page.run("document.getElementById('ask').focus()")
        page.type(text)
        page.press("Enter", number=13)
        self.assertTrue(page.until("!document.getElementById('stop').disabled || document.querySelector('.assistant .text')"))
        if wait:
            self.assertTrue(page.until("document.getElementById('stop').disabled"))

    def messages(self):
        """[role, text] of what the page shows."""
        return self.browser.run("[...document.querySelectorAll('.message')].map("
                                "m => [m.classList[1], m.querySelector('.text').textContent])")

    def press_button(self, name, at=-1):
        self.browser.run("[...document.querySelectorAll('button')].filter(b => b.textContent === %s).at(%d).click()"
                         % (json.dumps(name), at))

    def kept(self):
        return self.browser.run("JSON.parse(localStorage.getItem('tenon.chats'))")

    def test_conversation(self):
        page = self.browser
        self.ask("What is <b>a tenon</b>? <|im_start|>", wait=False)
        self.assertTrue(page.until("document.querySelector('.assistant .text').textContent.includes('joins')"))
        self.assertFalse(page.run("document.getElementById('stop').disabled"))  # it streams
        self.assertTrue(page.until("document.getElementById('stop').disabled"))
        shown = TEXT.replace("**", "").replace("```c\n", "").replace("```\n", "").replace("`", "")
        wanted = [["user", "What is <b>a tenon</b>? <|im_start|>"], ["assistant", shown]]
        self.assertEqual(self.messages(), wanted)
        # what the model says is text: no element of its HTML exists, its code and strong words are shown as such
        self.assertEqual(page.run("document.querySelectorAll('main img, main script, main b').length"), 0)
        self.assertEqual(page.run("document.querySelector('main pre code').textContent"), "int main(void) {\n  return 0;\n}\n")
        self.assertEqual(page.run("document.querySelector('main strong').textContent"), "strong")
        self.assertRegex(page.run("document.querySelector('main .note').textContent"), r"^\d+ tokens, [\d.]+ tokens/s$")
        if PICTURES:
            page.picture(os.path.join(PICTURES, "page.png"))
        page.open(self.url)  # reload: all is still there
        self.assertTrue(page.until("document.querySelectorAll('.message').length === 2"))
        self.assertEqual(self.messages(), wanted)
        self.ask("And?")
        self.assertEqual(len(self.messages()), 4)
        self.press_button("Regenerate")
        self.assertTrue(page.until("!document.getElementById('stop').disabled"))
        self.assertTrue(page.until("document.getElementById('stop').disabled"))
        self.assertEqual(self.messages(), wanted + [["user", "And?"], ["assistant", shown]])
        self.press_button("Edit", 0)  # the first question anew: what came after it goes
        self.assertEqual((self.messages(), page.run("document.getElementById('ask').value")), ([], wanted[0][1]))
        self.assertEqual(len(self.kept()[0]["messages"]), 4)  # not before it is sent
        page.press("Escape", number=27)
        self.assertEqual((len(self.messages()), page.run("document.getElementById('ask').value")), (4, ""))
        self.press_button("Edit", 0)
        page.run("document.getElementById('ask').value = ''")
        self.ask("Another")
        self.assertEqual([text for role, text in self.messages() if role == "user"], ["Another"])

    def test_stop(self):
        page = self.browser
        for stop in (lambda: self.press_button("Stop"), lambda: page.press("Escape", number=27)):
            cancelled = self.server.metric('requests_finished_total{reason="cancelled"}')
            self.ask("Go on", wait=False)
            self.assertTrue(page.until("document.querySelector('.message:last-of-type .text, .assistant .text').textContent"))
            stop()
            self.assertTrue(page.until("document.getElementById('stop').disabled"))
            self.assertTrue(until(lambda: self.server.metric('requests_finished_total{reason="cancelled"}') > cancelled))
            self.assertEqual(page.run("[...document.querySelectorAll('.note')].at(-1).textContent"), "stopped")
            self.press_button("New chat", 0)

    def test_settings_and_chats(self):
        page = self.browser
        self.ask("First")
        page.press("n", code="KeyN", modifiers=1, number=78)  # Alt+N
        self.assertTrue(page.until("document.querySelectorAll('.message').length === 0"))
        page.run("document.querySelector('details.settings').open = true, document.getElementById('system').focus()")
        page.type("Be brief")
        page.run("document.getElementById('max_tokens').value = '5',"
                 "document.getElementById('max_tokens').dispatchEvent(new Event('change'))")
        page.run("window.asked = [], window.old = fetch, window.fetch = (url, options) => "
                 "(asked.push(JSON.parse(options.body)), old(url, options))")
        self.ask("Second")
        asked = page.run("asked")[0]
        self.assertEqual(asked["messages"], [{"role": "system", "content": "Be brief"}, {"role": "user", "content": "Second"}])
        self.assertEqual((asked["max_tokens"], asked["temperature"]), (5, 0.7))
        self.assertIn("cut at the limit", page.run("document.querySelector('.note').textContent"))
        self.assertEqual([(chat["title"], chat["system"]) for chat in self.kept()], [("Second", "Be brief"), ("First", "")])
        self.press_button("First")
        self.assertEqual(self.messages()[0], ["user", "First"])
        self.assertEqual(page.run("document.getElementById('system').value"), "")
        page.press("ArrowUp", number=38)  # in the empty input: the last message again
        self.assertEqual(page.run("document.getElementById('ask').value"), "First")
        page.run("document.getElementById('ask').value = ''")
        self.press_button("\u00d7", 0)
        self.assertEqual([chat["title"] for chat in self.kept()], ["First"])  # the edit wasn't sent

    def test_faults_are_shown(self):
        page = self.browser
        page.run("document.getElementById('temperature').value = '-3'")
        self.ask("x")
        note = page.run("document.querySelector('.note').textContent")
        self.assertIn("temperature", note)
        self.assertTrue(page.run("document.querySelector('.note').classList.contains('fault')"))
        page.run("window.old = fetch, window.fetch = () => Promise.resolve(new Response('<h1>Bad gateway</h1>', {status: 502}))")
        self.press_button("Regenerate")
        self.assertTrue(page.until("document.querySelector('.note').textContent === 'error: status 502'"))
        page.run("window.fetch = old")
        page.events.clear()  # Chromium logs each answer of 400
        page.run("document.getElementById('temperature').value = '0'")
        self.press_button("Regenerate")
        self.assertTrue(page.until("document.querySelector('.assistant .text').textContent.includes('Done.')"))

    def test_dark_and_narrow(self):
        page = self.browser
        paper = "getComputedStyle(document.querySelector('nav')).color"
        light = page.run(paper)
        page.size(1000, 700, dark=True)
        dark = page.run(paper)
        self.assertNotEqual(light, dark)
        page.run("document.getElementById('theme').value = 'light', document.getElementById('theme')"
                 ".dispatchEvent(new Event('change'))")
        self.assertEqual(page.run(paper), light)  # the user's choice wins, and stays
        page.open(self.url)
        self.assertEqual(page.run(paper), light)
        page.run("document.getElementById('theme').value = '', document.getElementById('theme')"
                 ".dispatchEvent(new Event('change'))")
        page.size(360, 640, dark=True)
        self.ask("Does a narrow screen do?")
        self.assertLessEqual(page.run("document.documentElement.scrollWidth"), 360)
        self.assertFalse(page.run("document.querySelector('nav').getBoundingClientRect().right > 0"))
        page.run("document.getElementById('fresh').focus()")  # nor does the keyboard get there
        self.assertNotEqual(page.run("document.activeElement.id"), "fresh")
        if PICTURES:
            page.picture(os.path.join(PICTURES, "page-narrow.png"))
        page.run("document.getElementById('menu').click()")
        self.assertTrue(page.until("document.querySelector('nav').getBoundingClientRect().right > 0"))
        self.assertEqual(page.run("document.getElementById('menu').getAttribute('aria-expanded')"), "true")
        page.run("document.getElementById('talk').click()")
        self.assertTrue(page.until("document.querySelector('nav').getBoundingClientRect().right <= 0"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
