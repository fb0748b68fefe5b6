"""A real browser that signs in from a file, signs out, and shows what is wrong."""

from __future__ import annotations

import pytest

from service.http.auth import Sessions
from service.runtime.client import read_token
from tests.browser.serving import cookie_of
from workers.resources import Resources


@pytest.fixture
def context(chromium, small):
    _, address = small
    context = chromium.new_context(base_url=address)
    yield context
    context.close()


def file_that_opens(stage, address, path="/"):
    """Ask the running service as the command line does."""
    import httpx

    token = read_token(stage.state)
    answer = httpx.post(
        f"{address}/session", params={"page": True, "to": path}, headers={"Authorization": f"Bearer {token}"}
    )
    return answer.json()["page"]


def test_a_file_signs_the_browser_in_and_shows_the_page(small, context, screenshots):
    stage, address = small
    page = context.new_page()
    page.goto(f"file://{file_that_opens(stage, address)}")
    page.wait_for_url(f"{address}/")
    page.get_by_text("Operations", exact=True).click()
    page.get_by_role("button", name="Sign out").wait_for()
    page.screenshot(path=screenshots / "signed-in.png")
    (cookie,) = context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    again = context.new_page()
    again.goto(f"{address}/ops")
    again.get_by_text("Operations", exact=True).click()
    assert again.get_by_role("button", name="Sign out").is_visible()
    again.goto(f"file://{file_that_opens(stage, address, '/graph')}")
    again.wait_for_url(f"{address}/graph")


@pytest.mark.parametrize("width", [1280, 360])
def test_a_browser_without_scripts_signs_in_with_the_token(chromium, small, screenshots, width):
    stage, address = small
    context = chromium.new_context(java_script_enabled=False, viewport={"width": width, "height": 700})
    page = context.new_page()
    requested = []
    page.on("request", lambda sent: requested.append(sent.url))
    page.goto(f"{address}/ops")
    token = read_token(stage.state)
    for given, title in (("wrong", "That is not the token"), (token, "Everindex")):
        field = page.get_by_label("paste the token")
        assert field.get_attribute("type") == "password"
        field.fill(given)
        page.screenshot(path=screenshots / f"token-{width}.png")
        field.press("Enter")
        page.wait_for_load_state()
        assert title in page.title()
    assert page.url == f"{address}/"
    assert page.get_by_role("searchbox").is_visible()
    assert not [url for url in requested if token in url]
    context.close()


@pytest.mark.parametrize("path", ["/", "/ops", "/graph", "/ops/review"])
def test_signing_out_ends_the_session_on_every_page(small, context, screenshots, path):
    stage, address = small
    name, value = cookie_of(stage.settings, int(address.rpartition(":")[2]))
    context.add_cookies([{"name": name, "value": value, "url": address}])
    page = context.new_page()
    page.goto(f"{address}{path}")
    page.get_by_text("Operations", exact=True).click()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_text("This browser is not signed in").wait_for()
    page.screenshot(path=screenshots / "signed-out.png")
    assert context.cookies() == []
    context.add_cookies([{"name": name, "value": value, "url": address}])
    assert page.goto(f"{address}{path}").status == 401


def test_two_vaults_on_one_machine_do_not_sign_each_other_out(small, context, tmp_path):
    stage, address = small
    port = int(address.rpartition(":")[2])
    for name, value in (cookie_of(stage.settings, port), ("everindex-ba9876543210-1", "another")):
        context.add_cookies([{"name": name, "value": value, "url": address}])
    page = context.new_page()
    assert page.goto(address).status == 200
    place = Resources(stage.settings).place
    other = Sessions(read_token(place.state), tmp_path, "ba9876543210", port)
    assert other.cookie != cookie_of(stage.settings, port)[0]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_errors_and_the_button_fit_the_page(chromium, small, screenshots, width, scheme):
    stage, address = small
    name, value = cookie_of(stage.settings, int(address.rpartition(":")[2]))
    context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    complaints = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(address)
    page.screenshot(path=screenshots / f"sign-in-{width}-{scheme}.png")
    context.add_cookies([{"name": name, "value": value, "url": address}])
    for path, picture in (
        ("/notes/nope.md", "missing"),
        ("/", "search"),
        ("/ops", "overview"),
        ("/graph", "map"),
    ):
        page.goto(f"{address}{path}")
        page.wait_for_timeout(200)
        page.screenshot(path=screenshots / f"{picture}-{width}-{scheme}.png")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()
    assert complaints == []
