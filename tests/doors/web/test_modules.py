"""The page's modules by themselves: events, frames, the ring of items, rows of lanes, the window, looks, the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.doors.web.conftest import known_feed
from tests.doors.web.mock import Service

pytest.importorskip("playwright")
from playwright.sync_api import Browser

Run = Callable[[str], Any]
MODULES = ["frames", "store", "view", "tape", "arcs", "clock", "charts", "river", "dial", "key", "palette", "verdict"]


@pytest.fixture(scope="module")
def run(browser: Browser) -> Iterator[Run]:
    """Runs JavaScript that may use the modules by name, and gives what it returns."""
    with Service(known_feed()) as service:
        page = browser.new_page()
        page.goto(service.address)
        page.evaluate(
            """async (names) => {
                const found = await Promise.all(names.map((name) => import(`/assets/${name}.js`)));
                globalThis.modules = Object.fromEntries(names.map((name, i) => [name, found[i]]));
                const fields = [{ name: "f", values: [1, 2] }];
                globalThis.hello = { labels: ["a", "b"], fields, card: { threshold: 0.5 } };
                const empty = { items: [], keys: [], decisions: [], ended: [], counts: { dropped_frames_items: 0 } };
                globalThis.filled = (frames, greeting = hello) => {
                    const store = new modules.store.Store();
                    store.begin(greeting);
                    store.taken = (frame, since, at) => store.take({ ...empty, ...frame }, since, at);
                    for (const [frame, since, at] of frames) store.taken(frame, since, at);
                    return store;
                };
            }""",
            MODULES,
        )
        yield lambda text: page.evaluate(f"() => {{ const {{ {', '.join(MODULES)} }} = modules; {text} }}")
        page.close()


def test_events_are_read_from_any_pieces(run: Run) -> None:
    text = ': hello\\n\\nevent: decision\\nid: 7\\ndata: {\\"a\\":\\ndata: 1}\\n\\ndata: x\\r\\n\\r\\ndata: unfinished'
    whole = [{"event": "decision", "id": "7", "data": '{"a":\n1}'}, {"event": "message", "id": "", "data": "x"}]
    assert run(f'return new frames.EventReader().push("{text}");') == whole
    assert run(f'const r = new frames.EventReader(); return [..."{text}"].flatMap((c) => r.push(c));') == whole


def test_values_stand_by_their_size_or_their_place(run: Run) -> None:
    assert run("return [...frames.heights([100, 0, 25])];") == [1, 0, 0.5]
    assert run('return [...frames.heights(["<10", "10…52.5", "52.5…"])];')[-1] == 1
    assert run('return [...frames.heights(["10.0.0.1", "10.0.0.9", "9.9.9.9"])];') == [0, 0.5, 1]
    assert run('return [...frames.heights(["only"]), ...frames.heights([])];') == [0.5]


def test_the_curve_of_a_card_goes_from_early_to_late(run: Run) -> None:
    card = run("return frames.readCard({ threshold: 0.4, curve: [{ earliness: 0.5 }, { earliness: 0.1 }] });")
    assert card == {"threshold": 0.4, "curve": [{"earliness": 0.1}, {"earliness": 0.5}]}


def test_lanes_get_the_lowest_free_row_and_give_it_back(run: Run) -> None:
    found = run(
        """const item = (k, i) => [k, i, i, [0], 0, 0.1, 0, 0.5];
        const name = (k) => [k, "t", "key" + k, 0, 0.5];
        const s = filled([[{ keys: [name(0), name(1), name(2)], items: [item(0, 0), item(1, 0), item(2, 0)] }, 0, 30]]);
        s.taken({ items: [item(0, 1), item(2, 1)] }, 900, 1000);
        s.sweep([[500, Infinity]], null);
        const freed = s.rows.map((lane) => lane?.key ?? null);
        s.taken({ keys: [name(3)], items: [item(3, 0)] }, 1000, 1100);
        const kept = s.rows.find((lane) => lane.key === "key2");
        s.sweep([[5000, Infinity]], kept);
        return [freed, s.rows.map((lane) => lane?.key ?? null), s.lanes.size];"""
    )
    assert found == [["key0", None, "key2"], [None, None, "key2"], 1]


def test_the_ring_keeps_the_newest_items_in_order(run: Run) -> None:
    found = run(
        """const s = filled([[{ keys: [[0, "t", "a", 0], [1, "t", "b", 0]], items: [] }, 0, 0]]);
        const n = 100 * Math.ceil(store.CAPACITY / 100 + 10);
        for (let i = 0; i < n; i += 100) {
            const items = Array.from({ length: 100 }, (_, j) => [(i + j) % 2, (i + j) >> 1, i + j, [1], 0, 0, 0, 0]);
            s.taken({ items }, i, i + 100);
        }
        const lane = s.byNumber.get(1);
        const own = s.itemsOf(lane, 5);
        const steps = own.map((v, i) => i && v - own[i - 1]);
        return [s.size - s.oldest === store.CAPACITY, n - s.firstSince(n - 9.5), n - own.at(-1), steps,
            s.whereIs(lane, lane.count - 1) === s.ring.at[(n - 1) & store.MASK], s.whereIs(lane, 3)];"""
    )
    assert found == [True, 10, 1, [0, 2, 2, 2, 2], True, None]


def test_decisions_mark_the_items_behind_them(run: Run) -> None:
    found = run(
        """const items = [0, 1, 2, 3].map((i) => [5, i, i, [0], 0, 0.2 * i, 1, 0.5]);
        const s = filled([[{ keys: [[5, "t", "a", 0]], items, decisions: [[5, 1, 1, 0.9, 2, "halted", true]] }, 0, 40],
            [{ items: [[5, 4, 4, [0], 0, 0.9, 0, 0.99]] }, 40, 50]]);
        const lane = s.rows[0];
        const after = [...s.ring.isAfter.slice(0, 5)];
        return [after, lane.decision.at, lane.top, lane.count, [...s.byRead.halted], s.byClass.get(1)];"""
    )
    assert found == [[0, 0, 1, 1, 1], 20, 1, 5, [0, 1, 0, 0, 0, 0, 0, 0, 0, 0], 1]


def test_a_new_connection_goes_on_with_the_same_lanes(run: Run) -> None:
    found = run(
        """const s = filled([[{ keys: [[0, "t", "a", 0]], items: [[0, 0, 0, [0], 0, 0, 0, 0]] }, 0, 10]]);
        s.begin(hello);
        s.taken({ keys: [[9, "t", "a", 0]], items: [[9, 1, 1, [0], 0, 0, 0, 0]] }, 10, 20);
        const same = [s.rows.length, s.rows[0].count];
        s.begin({ ...hello, labels: ["other"] });
        return [same, s.rows.length];"""
    )
    assert found == [[1, 2], 0]


def test_after_a_break_lanes_without_a_decision_are_late(run: Run) -> None:
    found = run(
        """const item = (k, i) => [k, i, i, [0], 0, 0.1, 0, 0.5];
        const keys = ["a", "b", "c"].map((key, k) => [k, "t", key, 0, 0.5]);
        const s = filled([[{ keys, items: [item(0, 0), item(1, 0), item(2, 0)],
            decisions: [[2, 1, 1, 0.9, 1, "halted", true]] }, 0, 30]]);
        const late = () => s.rows.map((lane) => [lane.isLate, lane.isAsked]);
        const before = late();
        s.rows[1].isAsked = true; // before the break
        s.begin(hello);
        const after = late();
        s.taken({ keys: [[7, "t", "a", 0, 0.5]], items: [item(7, 3)] }, 40, 50);
        s.learn(s.rows[0], 1, 0.8, 2, "halted", true);
        s.taken({ items: [item(7, 4)] }, 60, 70);
        return [before, after, s.rows[0].count, s.rows[0].decision.read, s.ring.isAfter[4]];"""
    )
    assert found == [[[False, False]] * 3, [[True, False], [True, False], [False, False]], 4 + 1, 2, 1]


@pytest.mark.parametrize("first", [0, 1])
def test_a_lane_whose_items_begin_anew_is_another_sequence(run: Run, first: int) -> None:
    found = run(
        """const item = (k, i) => [k, i, i, [0], 0, 0.1, 1, 0.5];
        const keys = [[0, "t", "a", 0, 0.5], [1, "t", "b", 0, 0.5]];
        const items = [item(0, 0), item(1, 0), item(0, 1), item(0, 2)];
        const s = filled([[{ keys, items, decisions: [[0, 1, 0, 0.9, 2, "halted", true]] }, 0, 40]]);
        const [old, other] = s.rows;
        s.begin(hello);
        s.taken({ keys: [[5, "t", "a", 0, 0.3]], items: [item(5, FIRST)] }, 1990, 2000);
        const [lane] = s.rows;
        const begun = [lane.decision, lane.count, lane.threshold, lane.bornAt, lane.isLate, s.itemsOf(lane).length];
        s.taken({ decisions: [[5, 1, 1, 0.8, FIRST + 1, "halted", true]] }, 2000, 2100);
        return [begun, lane.decision.label, s.ring.isAfter[4], old.row, s.rows[1] === other, s.lanes.size];""".replace(
            "FIRST", str(first)
        )
    )
    assert found == [[None, first + 1, 0.3, 2000, first > 0, 1], 1, 0, -1, True, 2]


def test_items_that_go_on_in_their_lane_erase_nothing(run: Run) -> None:
    found = run(
        """const item = (i) => [0, i, i, [0], 0, 0.1, 1, 0.5];
        const s = filled([[{ keys: [[0, "t", "a", 0, 0.5]], items: [item(0), item(1)] }, 0, 40]]);
        const before = s.erasures;
        s.begin(hello);
        s.taken({ keys: [[0, "t", "a", 0, 0.5]], items: [item(2), item(9)] }, 50, 60);
        const on = s.erasures;
        s.taken({ items: [item(0)] }, 60, 70);
        const anew = s.erasures;
        s.clear();
        return [on - before, anew - on, s.erasures - anew];"""
    )
    assert found == [0, 1, 1]


def test_lanes_known_by_a_decision_alone_are_swept(run: Run) -> None:
    found = run(
        """const s = filled([]);
        for (let n = 0; n < 5000; n++) {
            s.taken({ keys: [[n, "t", "k" + n, 0, null]], decisions: [[n, n, 0, 0.9, 2, "halted", true]] }, n, n);
        }
        s.sweep([[4990, Infinity]], null);
        return [s.lanes.size, s.rows.length];"""
    )
    assert found == [10, 0]


def test_while_the_picture_is_held_only_its_lanes_and_those_of_now_are_kept(run: Run) -> None:
    found = run(
        """const s = filled([]);
        for (let n = 0; n < 5000; n++) {
            s.taken({ keys: [[n, "t", n, 0, 0.5]], items: [[n, 0, n, [0], 0, 0.1, 0, 0.5]] }, n, n);
            if (n % 100 === 0) s.sweep([[n - 50, Infinity], [950, 1000]], null);
        }
        s.sweep([[4950, Infinity], [950, 1000]], null);
        return [...s.lanes.values()].map((lane) => lane.key);"""
    )
    assert found == [*range(950, 1001), *range(4950, 5000)]


def test_a_lane_keeps_the_threshold_with_which_it_began(run: Run) -> None:
    found = run(
        """const item = (k) => [k, 0, 0, [0], 0, 0.3, 0, 0.5];
        const s = filled([[{ keys: [[0, "t", "a", 0, null]], items: [item(0)] }, 0, 10]]);
        s.greet({ ...hello, card: { threshold: 0.3 } });
        s.taken({ keys: [[1, "t", "b", 0, null], [2, "t", "c", 0, 0.6]], items: [item(1), item(2)] }, 10, 20);
        return s.rows.map((lane) => store.fullness(lane, lane.halt));"""
    )
    assert found == [pytest.approx(0.6), 1, pytest.approx(0.5)]


def test_a_greeting_in_between_keeps_lanes_and_numbers(run: Run) -> None:
    found = run(
        """const s = filled([[{ keys: [[0, "t", "a", 0, 0.5]], items: [[0, 0, 0, [0], 0, 0, 0, 0]] }, 0, 10]]);
        s.greet({ ...hello, labels: ["a", "b", "new"], fields: [{ name: "f", values: [1, 2, 3] }] });
        s.taken({ items: [[0, 1, 1, [2], 0, 0, 2, 0]], decisions: [[0, 1, 2, 0.9, 2, "halted", true]] }, 10, 20);
        const [lane] = s.rows;
        return [lane.count, verdict.labelText(s.labels, lane.decision)];"""
    )
    assert found == [2, "new 90 %"]


def test_decisions_that_do_not_know_are_counted_apart(run: Run) -> None:
    found = run(
        """const s = filled([[{ keys: [0, 1].map((k) => [k, "t", k, 0, 0.5]), decisions: [
            [0, 0, 1, 0.9, 1, "halted", true], [1, 1, 1, 0.43, 3, "ended", false]] }, 0, 100]]);
        const [known, unknown] = s.newest;
        return [charts.stackDecisions(s, 100, 1), [...s.byClass], verdict.labelText(s.labels, unknown)];"""
    )
    assert found == [
        {"ages": [0], "sums": [[0], [1], [2]], "classes": [0, 1, -2]},
        [[1, 1], [-2, 1]],
        "unknown (closest: b 43 %)",
    ]


def test_every_label_has_colours_also_one_that_is_none(run: Run) -> None:
    found = run(
        """const colours = palette.makePalette("light", getComputedStyle(document.documentElement));
        return [-1, 0, 9].map((label) => [palette.classColour, palette.paleColour].map(
            (one) => palette.inkOn(one(colours, label))));"""
    )
    assert all(ink in ("#10151b", "#ffffff") for inks in found for ink in inks)


def test_earliness_is_counted_where_sequences_are_over(run: Run) -> None:
    ended = [[1, 20, "halted"], [2, 20, "halted"], [3, 20, "halted"], [20, 20, "ended"]]
    found = run(
        f"const s = filled([[{{ ended: {ended} }}, 0, 10]]);"
        "return [[...s.byShare.halted], [...s.byShare.other], charts.shareName(1)];"
    )
    assert found == [
        [2, 1, 0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 0, 1], "more than 10 % and up to 20 % of the sequence",
    ]  # fmt: skip


def test_places_and_moments_are_inverse(run: Run) -> None:
    found = run(
        """const room = { width: 1000, height: 600, ratio: 1, span: 30000, rows: 100, places: 100, density: "auto" };
        const v = view.makeView({ ...room, scroll: 700, now: 50000, isHeld: false });
        return [view.momentAt(v, view.xOf(v, 41234)), view.rowAt(v, view.yOf(v, 40)), view.rowAt(v, 3),
            view.seenRows(v), view.xOf(v, 50000) === v.edge, view.scrollTo(v, 0), view.scrollTo(v, 40) === v.scroll];"""
    )
    assert found[0] == pytest.approx(41234)
    assert found[1:] == [40, -1, [35, 63], True, 0, True]


def test_rows_are_readable_or_all_of_them_are_seen(run: Run) -> None:
    assert run(
        'return [view.rowHeight(5, 600, "auto"), view.rowHeight(300, 600, "auto"), view.rowHeight(300, 600, "all")];'
    ) == [34, 20, 2]
    assert run("return [view.rowsFor(7, 0), view.rowsFor(7, 10), view.rowsFor(5, 10), view.rowsFor(11, 10)];") == [
        8,
        10,
        6,
        12,
    ]


def test_the_tape_is_a_ring_of_columns(run: Run) -> None:
    assert run("return tape.pieces(8, 3, 100);") == [[8, 3]]
    assert run("return tape.pieces(98, 5, 100);") == [[98, 2], [0, 3]]
    assert run("return tape.pieces(-3, 5, 100);") == [[97, 3], [0, 2]]


def test_what_was_drawn_item_by_item_looks_like_the_whole(run: Run) -> None:
    found = run(
        """const colours = palette.makePalette("light", getComputedStyle(document.documentElement));
        const s = filled([[{ keys: [0, 1, 2, 3].map((k) => [k, "t", "key" + k, 0, 0.5]) }, 0, 0]]);
        const scales = [frames.heights([1, 2])];
        const room = { width: 700, height: 250, ratio: 1, span: 5000, places: 6, density: "auto" };
        const paint = (one, now) => {
            const canvas = Object.assign(document.createElement("canvas"), { width: 700, height: 250 });
            const window = view.makeView({ ...room, rows: 4, scroll: 0, isHeld: false, now });
            one.draw(canvas.getContext("2d"), s, window, colours, scales, 0);
            return new Uint32Array(canvas.getContext("2d").getImageData(0, 0, 700, 250).data.buffer);
        };
        const grown = new tape.Tape();
        let now = 0;
        for (let n = 0; n < 300; n++) { // three times around the ring
            now += 50 + (n % 7) * 3;
            const read = n >> 2;
            const decisions = read === 30 && n % 4 < 3 ? [[n % 4, n, n % 2, 0.9, 31, "halted", n % 3 > 0]] : [];
            s.taken({ items: [[n % 4, read, n, [n % 2], n >> 4, 0.1, 0, 0.5]], decisions }, now - 40, now);
            paint(grown, now);
        }
        const [piecewise, whole] = [paint(grown, now), paint(new tape.Tape(), now)];
        const drawn = whole.filter((pixel) => pixel !== 0).length;
        return [drawn, whole.filter((pixel, i) => pixel !== piecewise[i]).length / drawn];"""
    )
    assert found[0] > 5000 and found[1] < 0.02


def test_looks_lead_to_items_by_sequence_and_place(run: Run) -> None:
    found = run(
        """const item = (k, i) => [k, i, 7, [0], 0, 0, 0, 0]; // all at one time
        const keys = [[0, "t", "a", 0, 0.5], [1, "t", "b", 0, 0.5], [2, "t", "a", 1, 0.5]];
        const s = filled([[{ keys, items: [item(0, 0), item(1, 0), item(2, 0), item(2, 1)] }, 0, 40]]);
        const told = (key, sequence, n, i) => ({ i, key, sequence, n, time: 7, value: {} });
        const items = [told("a", 0, 0, 0), told("b", 0, 0, 1), told("a", 1, 0, 2), told("a", 1, 1, 3),
            told("b", 0, null, 4)];
        const look = (i, kind) => ({ i, share: 0.2, kind });
        const at = [look(0, "value"), look(1, "value"), look(2, "own"), look(4, "other")];
        const answer = { key: "a", sequence: 1, items, looks: [{ item: 2, at: [] }, { item: 3, at }] };
        const looks = arcs.findLooks(s, s.rows[2], answer, 1);
        return [looks.found.map((one) => [one.at, one.lane.key, one.isOwn, one.from]),
            [looks.gone, looks.own, looks.others, looks.keys].map((one) => Number(one.toFixed(3))),
            key.looksText(1, looks), arcs.findLooks(s, s.rows[0], answer, 0),
            arcs.findLooks(s, s.rows[2], answer, 7)];"""
    )
    assert found[0] == [[10, "a", False, 40], [20, "b", False, 40], [30, "a", True, 40]]
    assert found[1] == [1, 0.2, 0.6, 2]
    words = "Item 2 looked 20 % at its own key, 60 % at 2 other keys; 1 of the items is not in the river."
    assert found[2:] == [words, None, None]


def test_frames_that_waited_in_line_are_laid_out_as_they_were_sent(run: Run) -> None:
    found = run(
        """const c = new clock.Clock();
        c.tick(0);
        const at = [];
        for (let n = 0; n < 20; n++) { c.tick(50 * n); at.push(c.place(1000 + 0.05 * n)[1]); }
        c.tick(3000); // the page was busy for two seconds, then twenty frames come at once
        for (let n = 20; n < 40; n++) at.push(c.place(1000 + 0.05 * n)[1]);
        return at.map((one, n) => one - 50 * n);"""
    )
    assert max(map(abs, found)) < 60
    set_back = run(
        """const c = new clock.Clock();
        const at = [];
        for (let n = 0; n < 40; n++) { c.tick(50 * n); at.push(c.place((n < 20 ? 9000 : 5000) + 0.05 * n)[1]); }
        return at.map((one, n) => one - 50 * n);"""
    )
    assert max(map(abs, set_back)) < 60, "the service's clock was set back by more than an hour"
    held = run(
        """const c = new clock.Clock();
        c.tick(0); c.isHeld = true; c.tick(5000); c.step(500);
        return [c.now, c.place(1000)[1]];"""
    )
    assert held == [500, 500]


def test_decisions_are_stacked_by_class_and_time(run: Run) -> None:
    found = run(
        """const decide = (k, label) => [k, k, label, 0.9, 1, "halted", true];
        const keys = [0, 1, 2].map((k) => [k, "t", k, 0, 0.5]);
        const s = filled([[{ keys, decisions: [decide(0, 0), decide(1, 1)] }, 0, 100]]);
        s.taken({ decisions: [decide(2, 1)] }, 0, 2100);
        return charts.stackDecisions(s, 2500, 3);"""
    )
    assert found == {"ages": [-4, -2, 0], "sums": [[0, 1, 0], [0, 2, 1]], "classes": [0, 1]}
    many = run(
        """const s = filled([], { ...hello, labels: [..."abcdefghij"] });
        s.taken({ keys: [[0, "t", 0, 0, 0.5]], decisions: [[0, 0, 9, 0.9, 1, "halted", true]] }, 0, 100);
        return charts.stackDecisions(s, 100, 1).classes;"""
    )
    assert many == [0, 1, 2, 3, 4, 5, 6, 9, -1]  # those said most often have a colour, the others share one


def test_numbers_in_words(run: Run) -> None:
    assert run("return [0.994, 0.996, 1, 0.004].map(verdict.percent);") == ["99 %", "99 %", "100 %", "0 %"]
    assert run('return verdict.afterItems({ read: 1, reason: "halted" });') == "after 1 item"
    assert run('return verdict.afterItems({ read: 4, reason: "expired" });') == "expired, 4 items"
    assert run("return [0, 4, 9].map(charts.binName);") == ["1 item", "5–6 items", "33 items and more"]
    assert run("return dial.nearest([{ earliness: 0.1 }, { earliness: 0.3 }], 0.21);") == 1
    assert run('return key.topClasses([{ probabilities: { b: 0.9, a: 0.1 } }], ["a", "b", "c"]);') == ["a", "b"]
