"""Modules of the page that need no server, called in Chromium."""

import numpy as np
import pytest

from ordrank.metrics import nearest_label


@pytest.fixture
def call(visit, url):
    """Call a JavaScript function with the exports of a module and arguments."""
    page = visit(url)

    def call_module(name, function, *arguments):
        script = f"async (arguments) => ({function})(await import('/static/{name}.js'), ...arguments)"
        return page.evaluate(script, arguments)

    return call_module


def test_a_value_has_the_colour_of_the_nearest_grade(call):
    grades = np.array([-1.0, 0.0, 0.5, 3.0, 20240130.0, 20240131.0])
    values = np.concatenate([grades, (grades[1:] + grades[:-1]) / 2, np.random.default_rng(0).uniform(-3, 5, 50)])
    index = """({ Palette }, grades, values) => {
      const palette = new Palette(grades.map((value) => ({ grade: String(value), value, pictures: 1 })));
      return [...values, NaN].map((value) => palette.index(value));
    }"""
    found = call("palette", index, grades.tolist(), values.tolist())
    assert found == [*nearest_label(grades, values), -1]
    assert call("palette", "({ Palette }) => new Palette([]).index(1)") == -1


def test_the_number_of_points_follows_the_median_time_between_frames(call):
    run = """({ LevelOfDetail }, frames) => {
      const detail = new LevelOfDetail(30_000);
      let now = 0;
      return frames.map(([time, dragging]) => {
        detail.tick((now += time), dragging);
        return detail.visible;
      });
    }"""

    def visible(times, dragging=False):
        return call("level_of_detail", run, [[time, dragging] for time in times])[-1]

    assert visible([16] * 20) == 30_000
    assert visible([100] * 4) == 7_800
    assert visible([16, 16, 16, 300, 16]) == 30_000  # one late frame
    assert visible([100] * 4 + [16] * 20) == 30_000
    assert visible([100] * 100) == 2_000
    assert visible([600] * 20) == 30_000  # a key pressed now and then
    assert visible([600] * 20, dragging=True) == 2_000


def test_low_grades_are_on_the_left_even_if_few_pictures_have_grades(call):
    positions, values = np.zeros((100, 3)), np.full(100, np.nan)
    positions[:2, 0], values[:2] = [-3, -1], [1, 2]
    sign = """({ ViewTransform }, positions, values) =>
      new ViewTransform(Float32Array.from(positions), Float64Array.from(values, (value) => value ?? NaN)).sign"""
    texts = [None if np.isnan(value) else value for value in values.tolist()]
    assert call("view_transform", sign, positions.ravel().tolist(), texts) == 1


def controls(body):
    """Return a function of orbit_controls.js that creates controls, runs a body with them and returns the camera."""
    return f"""({{ OrbitControls }}, ...given) => {{
      const element = Object.assign(document.createElement("div"), {{ setPointerCapture: () => {{}} }});
      const clicks = [];
      const controls = new OrbitControls(element, {{ onChange: () => {{}}, onClick: () => clicks.push(1) }});
      const send = (type, clientX, options) =>
        element.dispatchEvent(new PointerEvent(type, {{ pointerId: 1, clientX, clientY: 0, ...options }}));
      {body}
      const {{ yaw, pitch, distance, homeDistance }} = controls;
      return {{ yaw, pitch, distance, homeDistance, clicks: clicks.length }};
    }}"""


def test_only_a_pressed_main_button_rotates_and_clicks(call):
    rest = call("orbit_controls", controls(""))
    drag = """send("pointerdown", 0, { button, buttons: 1 });
      send("pointermove", 50, { buttons: 1 });
      send("pointerup", 50, { button });"""
    assert call("orbit_controls", controls(f"const button = 0; {drag}")) != rest
    assert call("orbit_controls", controls(f"const button = 2; {drag}")) == rest
    press = 'send("pointerdown", 0, { button: 0, buttons: 1 });'
    released_elsewhere = (
        f'{press} send("pointermove", 50, {{ buttons: 0 }}); send("pointermove", 90, {{ buttons: 1 }});'
    )
    assert call("orbit_controls", controls(released_elsewhere)) == rest
    captured_elsewhere = f'{press} send("lostpointercapture", 0, {{}}); send("pointermove", 90, {{ buttons: 1 }});'
    assert call("orbit_controls", controls(captured_elsewhere)) == rest
    assert call("orbit_controls", controls(f'{press} send("pointerup", 0, {{ button: 0 }});')) == {**rest, "clicks": 1}


def outliers():
    """Return positions of which 3 per cent are far away."""
    positions = np.random.default_rng(0).uniform(-0.5, 0.5, (100, 3))
    positions[-3:] *= 300
    return positions.ravel().tolist()


def test_zooming_out_from_home_never_moves_the_camera_closer(call):
    fit = "controls.fit(Float32Array.from(given[0]), 1.2);"
    home = call("orbit_controls", controls(fit), outliers())
    farther = call("orbit_controls", controls(f"{fit} controls.zoom(1.25);"), outliers())
    assert home["distance"] == home["homeDistance"] <= farther["distance"]


def test_no_point_before_the_camera_is_clipped(call):
    depths = """({ PointCloud }, positions) => {
      const cloud = new PointCloud(document.createElement("canvas"), positions.length / 3);
      cloud.resize(300, 200);
      cloud.setPoints(Float32Array.from(positions), Float32Array.from(positions), []);
      cloud.draw([0, 0, 9], 9, positions.length / 3);
      const m = cloud.viewProjection;
      const row = (k, [x, y, z]) => m[k] * x + m[k + 4] * y + m[k + 8] * z + m[k + 12];
      const points = Array.from({ length: positions.length / 3 }, (_, i) => positions.slice(3 * i, 3 * i + 3));
      return points.filter((point) => row(3, point) > 0).map((point) => row(2, point) / row(3, point));
    }"""
    found = np.array(call("point_cloud", depths, outliers()))
    assert len(found) >= 97
    assert (np.abs(found) <= 1).all()


def test_every_grade_has_a_key_of_its_own_if_there_are_few(call):
    def keys_of(*grades):
        return call("keys", "({ keysOfGrades }, grades) => keysOfGrades(grades)", grades)

    assert keys_of("0", "2", "9") == ["0", "2", "9"]
    assert keys_of("10", "20", "30") == ["1", "2", "3"]
    assert keys_of(*map(str, range(1, 11))) == [*"1234567890"]
    assert keys_of(*map(str, range(11))) is None
    assert keys_of("0", "1", "2", "2.5") == ["0", "1", "2", "3"]  # a digit is its own key
    assert keys_of("-1", "1", "2", "10") == ["3", "1", "2", "4"]
    assert keys_of("unripe", "ripe", "overripe") == ["n", "i", "o"]  # u and r are keys of the mode
    assert keys_of("see", "Üb", "ü", "sue") == ["1", "ü", "2", "3"]


def test_changed_grades_never_move_the_next_page_before_the_list(call):
    offsets = """async ({ Grid, card }) => {
      const ignore = () => {};
      const grid = new Grid({ selection: { decorate: ignore }, onHover: ignore, onGrow: ignore, onRetry: ignore });
      const offsets = [];
      const page = async (offset) => {
        offsets.push(offset);
        return { total: 96, items: Array.from({ length: 48 }, (_, i) => ({ id: offset + i + 1, grade: "1" })) };
      };
      const link = { href: "#", action: "", second: { href: "#", label: "" } };
      const toCard = ({ id, grade }) => card({ id, name: "", grade, estimated: false, colour: "red", ...link });
      await grid.show({ page, card: toCard, onPage: ignore, refill: ignore, colour: ignore, limit: null, empty: "" });
      for (let i = 0; i < 60; i += 1) grid.update(1, { grade: "2" });
      await grid.grow();
      return offsets;
    }"""
    assert min(call("grid", offsets)) == 0


def test_pictures_come_by_name_after_all_suggestions(call):
    n_shown = """async ({ GradeQueue }) => {
      const pictures = Array.from({ length: 250 }, (_, i) => ({ id: i + 1, grade: null }));
      window.fetch = async (url) => {
        const { pathname, searchParams } = new URL(url);
        const [offset, limit] = ["offset", "limit"].map((name) => Number(searchParams.get(name)));
        const page = pictures.slice(offset, offset + limit);
        const isSuggestion = pathname.endsWith("/suggestions");
        const items = isSuggestion ? page.map((picture) => ({ picture, explanation: "", reason: "" })) : page;
        return new Response(JSON.stringify({ total: pictures.length, items }));
      };
      const queue = new GradeQueue("suggested");
      const shown = new Set();
      for (let i = 0; i < 300; i += 1) {
        await queue.load();
        queue.step();
        shown.add(queue.current?.picture.id);
      }
      return shown.size;
    }"""
    assert call("grade_queue", n_shown) == 250 + 1  # and the end


def test_settings_last_for_the_page_without_storage(call):
    values = """({ remember, remembered, rememberedKeys }) => {
      Storage.prototype.setItem = () => { throw new DOMException("", "QuotaExceededError"); };
      const isKept = remember("scale fruit", ["1", "2"]);
      const found = remembered("scale fruit", []);
      remember("scale fruit", null);
      return [isKept, found, remembered("scale fruit", []), rememberedKeys("scale")];
    }"""
    assert call("settings", values) == [False, ["1", "2"], [], []]


def test_the_plot_of_the_errors_goes_from_the_first_mean_that_tells_to_the_last(call):
    drawn = """({ errorPlot }, points) => {
      const plot = errorPlot(points);
      const texts = [...plot.querySelectorAll("text")].map((text) => text.textContent);
      return [plot.querySelector("svg").ariaLabel, plot.querySelector(".curve").getAttribute("d"), texts];
    }"""
    points = [{"grades": i + 1, "error": 2 if i < 4 else 1 - i / 12} for i in range(7)]
    label, curve, texts = call("error_plot", drawn, points)
    assert label == "Mean error of the last grades: 0.667 after 5, 0.500 after 7"
    assert curve == "M34.0 8.0L173.0 16.5L312.0 25.0"
    assert texts == ["0.67", "0", "5", "7"]
    label, curve, _ = call("error_plot", drawn, [{"grades": 1, "error": 0}, {"grades": 2, "error": 0}])
    assert "0.00 after 1" in label
    assert curve == "M34.0 76.0L312.0 76.0"


def test_pictures_that_appear_after_the_last_one_are_shown_in_turn(call):
    shown = """async ({ GradeQueue }) => {
      const pictures = [{ id: 1 }];
      window.fetch = async (url) => {
        const offset = Number(new URL(url).searchParams.get("offset"));
        return new Response(JSON.stringify({ total: pictures.length, items: pictures.slice(offset) }));
      };
      const queue = new GradeQueue("all");
      const shown = [];
      const next = async () => {
        await queue.load();
        queue.step();
        shown.push(queue.current?.picture.id ?? null);
      };
      await next();
      await next();
      pictures.push({ id: 2 }, { id: 3 });
      await queue.fetch();
      shown.push(queue.current?.picture.id ?? null); // nothing is shown by itself
      await next();
      await next();
      await next();
      queue.back();
      shown.push(queue.current.picture.id);
      return shown;
    }"""
    assert call("grade_queue", shown) == [1, None, None, 2, 3, None, 3]
