// page.js - shows the numbers of a report (report_data.c writes them). No request.
'use strict';
(function () {
const byId = id => document.getElementById(id), D = JSON.parse(byId('data').textContent);
const VERDICTS = ['pass', 'not judged', 'review', 'fail'], LEAST = 10; // slides, to say what is usual
const STAY = {preventScroll: true}, COMMANDS = {}; // of failed slides, by number
D.failed.forEach(f => addFailure(f[0], f[1]));
const N = D.names.length, W1 = D.metrics.length - 1, metric = name => D.metrics.findIndex(m => m.name === name), TISSUE = metric('tissue_fraction'), NARROW = matchMedia('(max-width: 40rem)');

// An input without numbers is in no pool.
function addFailure(name, reason) {
  const k = D.names.push(name) - 1;
  D.why[k] = [[reason, 0]];
  D.m.forEach(column => column.push(null));
  D.strength.push(1e9);
  if (D.results) COMMANDS[k] = (/\.h5$/i.test(name) ? 'h5spec run -o results/ ' : 'wsi2h5 -o stores/ ') + quoted(name);
  [['other', 0], ['pool', -1], ['verdict', 3], ['downsample', 1]].forEach(x => D[x[0]].push(x[1]));
  ['windows', 'width', 'height', 'nx', 'ny', 'damaged', 'damagedTiles', 'partial'].forEach(x => D[x].push(0));
}

function el(parent, name, attributes, text) {
  const [tag, ...classes] = name.split('.'), e = document.createElement(tag);
  e.classList.add(...classes);
  for (const k in attributes || {}) {
    if (k === 'on') for (const type in attributes.on) e.addEventListener(type, attributes.on[type]);
    else e.setAttribute(k, attributes[k]);
  }
  if (text !== undefined) e.textContent = text;
  if (parent) parent.appendChild(e);
  return e;
}
function clear(e) { while (e.firstChild) e.removeChild(e.firstChild); return e; }
function quoted(word) { return /^[\w@%+=:,./-]+$/.test(word) ? word : "'" + word.replace(/'/g, "'\\''") + "'"; } // for a shell
function shown(x, m) { // as many digits as a reader uses
  return x === null || x === undefined ? '' : m.unit === ' %' ? String(Math.round(100 * x)) : x.toFixed(m.digits);
}
function number(k, m) { return shown(D.m[m][k], D.metrics[m]); }
function reasons(k) { return (D.why[k] || []).map(x => x[0]); }
// A row has no room for the numbers behind a reason.
function words(k) {
  const all = reasons(k), first = (all[0] || '').replace(/ \([^()]*, usually [^()]*\)$/, '');
  return first + (all.length > 1 ? ' (+' + (all.length - 1) + ' more)' : '');
}
function stands(k) { return D.verdict[k] > 1; } // for review, or fails
const NO_POOL = {label: 'failed', m: D.metrics.map(() => [0])};
function poolOf(k) { return D.pools[D.pool[k]] || NO_POOL; }
function rowHeight() { return NARROW.matches ? 62 : 42; }
// Long names, as those of DICOM files, differ at their ends.
function short(name) { return name.length > 24 ? name.slice(0, 9) + '\u2026' + name.slice(-14) : name; }
// Works without the right to the clipboard, which pages from a mail lack.
function copyButton(parent, text, label) {
  return el(parent, 'button.copy', {title: text, on: {click: e => {
    const t = el(show.dialog, 'textarea', {}, text);
    t.select();
    document.execCommand('copy');
    t.remove();
    e.target.textContent = 'copied';
    e.target.focus();
  }}}, label);
}

// --- which slides are shown, in which order ---

const state = {sort: 0, down: true, filter: '', only: 'all', pool: -1, current: -1, pictures: false, open: false, experts: false};
const ONLY = {
  all: () => true, look: stands, fail: k => D.verdict[k] === 3, review: k => D.verdict[k] === 2, blurred: k => D.verdict[k] === 2 && /^tissue blurred|less sharp/.test(reasons(k)[0]), unjudged: k => D.verdict[k] === 1, pass: k => D.verdict[k] === 0,
  other: k => D.other[k] > 0, failed: k => D.pool[k] < 0, empty: k => D.pool[k] >= 0 && !D.windows[k],
  partial: k => D.partial[k] > 0, damaged: k => D.damaged[k] > 0 || D.damagedTiles[k] > 0,
};
const marks = new Set();
let view = [];

// What fails comes first, then what needs review, by how far it is from what is usual; then what has a note.
function urgency(k) {
  return 1e8 * D.verdict[k] + D.strength[k] + (reasons(k).length ? 1 : 0);
}
// With a shape for those who see no colour
function verdict(k) { return ['\u25cf ', '\u25cb ', '\u25b2 ', '\u2715 '][D.verdict[k]] + VERDICTS[D.verdict[k]]; }
let COLUMNS = [
  {title: 'mark', cell: k => (marks.has(k) ? '\u2713' : ''), value: k => (marks.has(k) ? 1 : 0)},
  {title: 'picture', thumb: true, cell: () => ''},
  {title: 'slide', cell: k => D.names[k], value: k => D.names[k]},
  {title: 'verdict', cell: verdict, value: k => D.verdict[k]},
  {title: 'reasons', cell: k => reasons(k).join('; '), value: urgency},
];
// With the unit, and which end is good.
function heading(i) {
  const m = D.metrics[i], unit = m.unit.trim();
  return i === SHARP ? 'sharpness (dB, less \u2194 more)' : m.title + (unit ? ' (' + unit + ')' : '');
}
const SHARP = metric('focus_p50'), FIRST = [SHARP, metric('blurred_share')];
FIRST.concat(D.metrics.map((m, i) => i).filter(i => !FIRST.includes(i)))
  .forEach(i => COLUMNS.push({title: heading(i), name: D.metrics[i].name, more: !FIRST.includes(i), metric: i, cell: k => number(k, i), value: k => D.m[i][k]}));
COLUMNS.push({title: 'places measured', more: true, cell: k => String(D.windows[k]), value: k => D.windows[k]});
COLUMNS.push({title: 'group', more: D.pools.length < 2, cell: k => poolOf(k).label, value: k => poolOf(k).label});
COLUMNS = COLUMNS.filter(c => c.metric === undefined || D.m[c.metric].some(x => x !== null));
const BY_REASON = COLUMNS.findIndex(c => c.title === 'reasons');
state.sort = BY_REASON;

// Sharpness, from the least to the most of all slides, on the band of half of the group.
const known = D.m[SHARP].filter(x => x !== null), LOW = known.reduce((a, b) => Math.min(a, b), 0), HIGH = known.reduce((a, b) => Math.max(a, b), LOW + 1e-9);
function bar(parent, k) {
  const at = x => 100 * Math.max(0, Math.min(1, (x - LOW) / (HIGH - LOW))), s = poolOf(k).m[SHARP];
  if (D.m[SHARP][k] === null || s[0] < LEAST) return;
  const track = el(parent, 'i.track');
  Object.assign(el(track, 'i.band').style, {left: at(s[1]) + '%', width: at(s[3]) - at(s[1]) + '%'});
  el(track, 'i.own').style.left = at(D.m[SHARP][k]) + '%';
}

// Words are found at their beginning, digits anywhere.
function holds(text, word) {
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1))
    if (at === 0 || /^[0-9]/.test(word) || !/[\p{L}\p{N}]/u.test(text[at - 1]) || !/^[\p{L}\p{N}]/u.test(word)) return true;
  return false;
}
// A metric by its short name, or how its title begins, in the unit shown.
function columnOf(word) {
  if (word === 'windows') return D.windows;
  const all = D.metrics.map((m, i) => i), i = all.findIndex(i => D.metrics[i].name === word), j = FIRST.concat(all).find(i => D.metrics[i].title.startsWith(word));
  return i >= 0 ? D.m[i] : j === undefined ? null : D.metrics[j].unit === ' %' ? D.m[j].map(x => x === null ? x : 100 * x) : D.m[j];
}
// Words of a name, a group or a reason; "sharpness < -40" compares a metric.
function makeFilter(text) {
  state.unknown = '';
  const tests = text.toLowerCase().replace(/\s*(<=|>=|<|>|=)\s*/g, '$1').split(/\s+/).filter(Boolean).map(word => {
    const c = word.match(/^([a-z0-9_]+)(<=|>=|<|>|=)(-?[0-9.]+)$/);
    const column = c ? columnOf(c[1]) : null;
    if (c && !column) state.unknown = c[1];
    if (column) {
      const limit = Number(c[3]);
      return k => column[k] !== null && (c[2] === '<' ? column[k] < limit : c[2] === '>' ? column[k] > limit :
        c[2] === '<=' ? column[k] <= limit : c[2] === '>=' ? column[k] >= limit : column[k] === limit);
    }
    return k => holds((D.names[k] + '\n' + poolOf(k).label + '\n' + reasons(k).join('\n') + '\n' + VERDICTS[D.verdict[k]]).toLowerCase(), word);
  });
  return k => tests.every(t => t(k));
}
function compare(a, b) { // values that are missing come last, whatever the order
  const value = COLUMNS[state.sort].value, x = value(a), y = value(b);
  if (x === null || y === null) return x === y ? a - b : x === null ? 1 : -1;
  const order = typeof x === 'string' ? (x < y ? -1 : x > y ? 1 : 0) : x - y;
  return (state.down ? -order : order) || (D.m[W1][b] || 0) - (D.m[W1][a] || 0) || a - b;
}
function countText() {
  return (state.unknown ? 'no number is called ' + state.unknown + ' (try sharpness, tissue); ' : '') + view.length + ' of ' + N + (N === 1 ? ' slide' : ' slides') +
    (marks.size ? ', ' + marks.size + ' marked' : '');
}
function refresh() {
  const test = makeFilter(state.filter);
  view = [];
  for (let k = 0; k < N; k++)
    if (ONLY[state.only](k) && (state.pool < 0 || D.pool[k] === state.pool) && test(k)) view.push(k);
  view.sort(compare);
  if (!view.includes(state.current)) state.current = -1;
  show.count.textContent = countText();
  show.table.setAttribute('aria-rowcount', view.length + 1);
  drawHead();
  drawRows();
  drawSheet();
}

// --- pictures: texts in script elements of 64 slides each, read when they are needed ---

const P = byId('pictures') ? JSON.parse(byId('pictures').textContent) : null;
const blocks = {};
function picturesOf(k) { // {map, thumb}: base64 texts, "" where there is none
  const b = Math.floor(k / (P ? P.per : 1));
  if (!P) return {};
  if (!blocks[b]) {
    const e = byId('p' + b); // it may not be there yet while the page is being loaded
    if (!e || (document.readyState === 'loading' && !e.nextElementSibling)) return {};
    blocks[b] = e.textContent.split('\n');
  }
  const f = (D.pool[k] >= 0 && blocks[b][k % P.per] || '').split(' ');
  return {map: f[0] || '', thumb: f[1] || ''};
}
// The map of a slide, and where its places are, in px of level 0.
function mapOf(k) {
  const step = D.stride * D.downsample[k];
  return {title: D.m[TISSUE][k] === null ? 'Sharpness of all places: the slide has no tissue map' : 'Sharpness of the tissue',
    none: D.m[TISSUE][k] === null ? 'not measured' : 'no tissue', corner: (D.window - D.stride) / 2 * D.downsample[k], step: step, nx: D.nx[k], ny: D.ny[k]};
}
function picture(parent, kind, text, alt) {
  if (!text) return null;
  return el(parent, 'img', {src: 'data:image/' + (kind === 'thumb' ? 'jpeg' : 'png') + ';base64,' + text, alt: alt, 'class': kind});
}

// --- controls ---

const app = byId('app');
const show = {};
function controls() {
  const bar = el(app, 'div.bar');
  show.filter = el(bar, 'input', {type: 'search', id: 'filter', placeholder: 'filter: words, or sharpness < -40',
    'aria-label': 'filter', on: {input: e => { state.filter = e.target.value; refresh(); }}});
  const label = el(bar, 'label');
  show.flagged = el(label, 'input', {type: 'checkbox', id: 'flagged', on: {change: e => showOnly(e.target.checked ? 'look' : 'all')}});
  label.appendChild(document.createTextNode(' only review and fail'));
  if (D.pools.length > 1) {
    show.pool = el(bar, 'select', {id: 'pool', 'aria-label': 'comparison group', on: {change: e => { state.pool = Number(e.target.value); refresh(); }}});
    el(show.pool, 'option', {value: -1}, 'all groups');
    D.pools.forEach((p, i) => el(show.pool, 'option', {value: i}, p.label + ' (' + p.n + ')'));
  }
  show.more = el(bar, 'button', {id: 'more', 'aria-pressed': false, on: {click: toggleColumns}}, 'more columns');
  show.toggle = el(bar, 'button', {id: 'toggle', on: {click: togglePictures}}, 'pictures');
  el(bar, 'button', {id: 'download', on: {click: () => save('slides.txt', listText())}}, 'download list');
  show.count = el(bar, 'span', {id: 'count', role: 'status'});
}
// The counts at the top of the page show the slides that they count.
function makeCounts() {
  show.only = [...document.querySelectorAll('header [data-show]')].map(li => {
    li.hidden = false;
    const b = el(null, 'button', {'data-show': li.dataset.show, on: {click: () => showOnly(li.dataset.show)}});
    b.append(...li.childNodes);
    li.appendChild(b);
    return b;
  });
}
function showOnly(what) {
  state.only = what;
  show.flagged.checked = what === 'look';
  show.only.forEach(b => b.setAttribute('aria-pressed', b.dataset.show === what));
  refresh();
}
function toggleColumns() {
  const all = app.classList.toggle('all-columns');
  show.more.setAttribute('aria-pressed', all);
  show.more.textContent = all ? 'fewer columns' : 'more columns';
  drawRows();
}
function togglePictures() {
  state.pictures = !state.pictures;
  show.toggle.textContent = state.pictures ? 'table' : 'pictures';
  show.table.hidden = show.more.hidden = state.pictures;
  show.sheet.hidden = !state.pictures;
  drawRows();
  drawSheet();
  focusList();
}
function focusList() { (state.pictures ? show.sheet : show.table).focus(STAY); }
// The marked slides; without marks, those that are shown.
function listText() {
  const chosen = marks.size ? view.filter(k => marks.has(k)).concat([...marks].filter(k => !view.includes(k))) : view;
  return chosen.map(k => D.names[k] + '\n').join('');
}
function save(name, text) {
  const url = URL.createObjectURL(new Blob([text], {type: 'text/plain'}));
  const a = el(document.body, 'a', {href: url, download: name});
  a.click();
  a.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// --- the table: only the rows in sight exist ---

function makeTable() {
  show.table = el(app, 'div', {id: 'table', tabindex: 0, role: 'grid', 'aria-label': 'slides'});
  show.head = el(show.table, 'div.row.head', {role: 'row', 'aria-rowindex': 1});
  COLUMNS.forEach((c, i) => {
    const h = el(show.head, 'span', {role: 'columnheader', 'class': classOf(c)}), [title, unit] = c.title.split(/(?= \()/);
    const text = c.value ? el(h, 'button', {title: c.name || '', on: {click: () => sortBy(i)}}, title) : el(h, 'span', {}, title);
    if (unit) el(text, 'span.unit', {}, unit);
    if (c.name) el(h, 'a.define', {href: '#' + c.name, 'aria-label': 'definition of ' + title, on: {click: define}}, '?');
  });
  show.space = el(show.table, 'div.space');
  show.rows = el(show.space, 'div.rows');
  show.table.addEventListener('scroll', drawRows);
}
function classOf(c) {
  const kind = c.metric === undefined && c.title !== 'places measured' ? c.title : 'number' + (FIRST.includes(c.metric) ? ' first' : '');
  return kind + (c.more ? ' more' : '');
}
// Shows one of the folded definitions.
function define(e) {
  e.preventDefault();
  const at = byId(e.currentTarget.hash.slice(1));
  at.closest('details').open = true;
  at.scrollIntoView({block: 'center'});
  at.tabIndex = -1;
  at.focus(STAY);
}
function classes(k) { return (k === state.current ? ' current' : '') + (marks.has(k) ? ' marked' : '') + (stands(k) ? ' flag ' + VERDICTS[D.verdict[k]] : ''); }
function sortBy(i) {
  state.down = state.sort === i ? !state.down : COLUMNS[i].title !== 'slide' && COLUMNS[i].title !== 'group';
  state.sort = i;
  show.table.scrollTop = 0;
  refresh();
}
function drawHead() {
  [...show.head.children].forEach((b, i) => COLUMNS[i].value && b.setAttribute('aria-sort', i !== state.sort ? 'none' : state.down ? 'descending' : 'ascending'));
}
function drawRows() {
  if (state.pictures) return;
  const ROW = rowHeight();
  show.space.style.height = view.length * ROW + 'px';
  show.table.style.height = 'min(85vh, ' + ((Math.max(1, N) + 1) * ROW + (app.classList.contains('all-columns') ? 20 : 0)) + 'px)';
  const first = Math.max(0, Math.floor((show.table.scrollTop - ROW) / ROW) - 5);
  const last = Math.min(view.length, first + Math.ceil(show.table.clientHeight / ROW) + 12);
  clear(show.rows).style.top = first * ROW + 'px';
  for (let i = first; i < last; i++) {
    const k = view[i];
    const row = el(show.rows, 'div', {'class': 'row' + classes(k), role: 'row',
      'data-slide': k, id: 'row' + k, 'aria-selected': k === state.current, 'aria-rowindex': i + 2, on: {click: () => { state.current = k; openSlide(); }}});
    COLUMNS.forEach(c => {
      const cell = el(row, 'span', {role: 'gridcell', 'class': classOf(c)}, c.thumb ? undefined : c.title === 'slide' ? short(c.cell(k)) : c.cell(k));
      if (['reasons', 'slide', 'group'].includes(c.title)) cell.title = c.cell(k);
      if (c.title === 'reasons') clear(cell), el(cell, 'div', {}, NARROW.matches ? verdict(k) + (words(k) ? ': ' + words(k) : '') : words(k));
      if (c.thumb) picture(cell, 'thumb', picturesOf(k).thumb, '');
      if (c.metric === SHARP) bar(cell, k);
    });
  }
  show.table.setAttribute('aria-activedescendant', byId('row' + state.current) ? 'row' + state.current : '');
}

// --- the contact sheet: thumbnail beside map ---

const CARD_W = 268, CARD_H = 178;
function makeSheet() {
  show.sheet = el(app, 'div', {id: 'sheet', tabindex: 0, hidden: ''});
  show.cards = el(el(show.sheet, 'div.space'), 'div.cards');
  show.sheet.addEventListener('scroll', drawSheet);
}
function perRow() { return Math.max(1, Math.floor(show.sheet.clientWidth / CARD_W)); }
function drawSheet() {
  if (!state.pictures) return;
  const n = perRow(), all = Math.ceil(view.length / n);
  show.cards.parentNode.style.height = all * CARD_H + 'px';
  show.sheet.style.height = 'min(60vh, ' + (Math.max(1, Math.ceil(N / n)) * CARD_H + 4) + 'px)';
  const first = Math.max(0, Math.floor(show.sheet.scrollTop / CARD_H) - 1);
  const last = Math.min(all, first + Math.ceil(show.sheet.clientHeight / CARD_H) + 3);
  clear(show.cards).style.top = first * CARD_H + 'px';
  view.slice(first * n, last * n).forEach(k => {
    const p = picturesOf(k);
    const card = el(show.cards, 'figure', {'class': 'card' + classes(k), 'data-slide': k, on: {click: () => { state.current = k; openSlide(); }}});
    const pair = el(card, 'div.pair');
    registered(pair, k, p, 122, 108);
    if (!p.thumb && !p.map) el(pair, 'span.none', {}, 'no picture');
    const mark = el(el(card, 'div.markline'), 'button.mark', {'aria-pressed': marks.has(k), title: 'mark (x)',
      on: {click: e => { e.stopPropagation(); state.current = k; toggleMark(); }}}, marks.has(k) ? '\u2713' : '\u00a0');
    mark.tabIndex = -1;
    el(card, 'figcaption', {title: D.names[k]}, short(D.names[k]));
    el(card, 'small', {title: reasons(k).join('; ')}, verdict(k) + (words(k) ? ': ' + words(k) : ''));
  });
}

// --- keys ---

function toggleMark() {
  const k = state.current;
  if (k < 0) return;
  if (!marks.delete(k)) marks.add(k);
  show.count.textContent = countText();
  drawRows();
  drawSheet();
  if (state.open) openSlide();
}
function move(by) {
  if (!view.length) return;
  const at = state.current < 0 ? 0 : view.indexOf(state.current) + by, ROW = rowHeight();
  state.current = view[Math.max(0, Math.min(view.length - 1, at))];
  const i = view.indexOf(state.current);
  if (!state.pictures) {
    const top = i * ROW, t = show.table;
    if (top < t.scrollTop) t.scrollTop = top;
    if (top + 2 * ROW > t.scrollTop + t.clientHeight) t.scrollTop = top + 2 * ROW - t.clientHeight;
  } else {
    const top = Math.floor(i / perRow()) * CARD_H, s = show.sheet;
    if (top < s.scrollTop || top + CARD_H > s.scrollTop + s.clientHeight) s.scrollTop = top;
  }
  drawRows();
  drawSheet();
  show.say.textContent = D.names[state.current] + ', row ' + (i + 1) + ' of ' + view.length + (reasons(state.current).length ? ': ' + reasons(state.current)[0] : '');
  if (state.open) openSlide();
}
const KEYS = {
  j: () => move(1), k: () => move(-1), x: toggleMark, p: togglePictures,
  ArrowDown: () => move(state.pictures ? perRow() : 1), ArrowUp: () => move(state.pictures ? -perRow() : -1),
  Enter: () => { if (state.current < 0) move(1); if (state.current >= 0 && !state.open) openSlide(); }, Escape: closeSlide, '/': () => show.filter.focus(),
};
document.addEventListener('keydown', e => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName);
  if (e.ctrlKey || e.metaKey || e.altKey || (typing && e.key !== 'Escape')) return;
  if (e.key === 'Enter' && e.target.tagName === 'BUTTON') return;
  if (state.open && zoomKey(e)) return;
  if (!KEYS[e.key]) return;
  e.preventDefault();
  if (typing) e.target.blur();
  KEYS[e.key]();
});

// --- groups ---

function makePools() {
  const d = el(app, 'details', {id: 'experts'});
  el(d, 'summary', {}, 'For experts: comparison groups');
  el(d, 'p', {}, 'Median and quartiles. Slides are compared within their group only.');
  const t = el(el(d, 'div.wide', {tabindex: 0, role: 'region', 'aria-label': 'comparison groups'}), 'table.plain', {id: 'pools'}), head = el(t, 'tr');
  const some = D.metrics.map((m, i) => i).filter(i => i < W1 && D.pools.some(p => p.m[i][0])); // numbers that a group has
  ['group', 'slides', 'measured'].concat(some.map(heading)).forEach(x => el(head, 'th', {}, x));
  D.pools.forEach(p => {
    const row = el(t, 'tr');
    [p.label, p.n, p.counted].forEach(x => el(row, 'td', {}, String(x)));
    some.map(i => [p.m[i], D.metrics[i]]).forEach(([s, n]) => el(row, 'td', {}, s[0] >= LEAST ? `${shown(s[2], n)} (${shown(s[1], n)} to ${shown(s[3], n)})` : ''));
  });
}

// --- one slide ---

// Each slide has an address: #slide=NAME, or #n=NUMBER where two have one name.
function hashOf(k) { return D.names.indexOf(D.names[k]) === k ? '#slide=' + encodeURIComponent(D.names[k]) : '#n=' + k; }
function slideOfHash() {
  const m = location.hash.match(/^#(slide|n)=(.*)$/);
  if (!m) return -1;
  try {
    return m[1] === 'n' ? (Number(m[2]) < N ? Number(m[2]) : -1) : D.names.indexOf(decodeURIComponent(m[2]));
  } catch (_) {
    return -1;
  }
}
function followHash() {
  const k = slideOfHash();
  if (k < 0) {
    if (state.open) hideSlide();
  } else if (!state.open || state.current !== k) {
    state.current = k;
    drawRows();
    drawSheet();
    openSlide();
  }
}
function setModal(on) { // what lies behind the slide cannot be reached
  [...document.body.children].forEach(e => { if (e !== show.dialog) e.inert = on; });
  document.documentElement.classList.toggle('modal', on);
}
// To the left: the next slide; to the right: the one before.
function swipes(e) {
  const t = e.changedTouches[0], from = show.touch;
  show.touch = e.type === 'touchstart' && e.touches.length === 1 ? {x: t.clientX, y: t.clientY} : null;
  if (e.type !== 'touchend' || !from) return;
  const x = t.clientX - from.x;
  if (Math.abs(x) > Math.max(60, 2 * Math.abs(t.clientY - from.y))) move(x < 0 ? 1 : -1);
}
function hideSlide() {
  state.open = false;
  show.dialog.hidden = true;
  setModal(false);
  const back = show.opener;
  show.opener = null;
  if (back && back.isConnected && back !== document.body) back.focus(STAY);
  else focusList();
}
function closeSlide() {
  if (!state.open) return;
  history.replaceState(null, '', '#slides');
  hideSlide();
}
function openSlide() {
  const k = state.current, p = picturesOf(k), d = clear(show.dialog);
  if (!state.open) show.opener = document.activeElement;
  if (location.hash !== hashOf(k)) history[state.open ? 'replaceState' : 'pushState'](null, '', hashOf(k));
  state.open = true;
  d.hidden = false;
  setModal(true);
  const bar = el(d, 'div.bar');
  el(bar, 'h2', {id: 'opened'}, D.names[k]);
  el(bar, 'b.verdict', {}, verdict(k));
  [['previous', 'k', () => move(-1)], ['next', 'j', () => move(1)], [marks.has(k) ? 'unmark' : 'mark', 'x', toggleMark],
    ['close', 'Esc', closeSlide]].forEach(b => el(el(bar, 'button', {on: {click: b[2]}}, b[0]), 'span.unit', {}, ' (' + b[1] + ')'));
  if (D.pool[k] >= 0) el(d, 'p', {}, `${poolOf(k).label}, ${D.width[k]} \u00d7 ${D.height[k]} px, ${D.windows[k]} of ${D.nx[k] * D.ny[k]} places measured`);
  if (reasons(k).length) {
    const list = el(d, 'ul.reasons');
    D.why[k].forEach(x => {
      const item = el(list, 'li');
      if (!x[1] || D.pool[k] < 0) item.textContent = x[0];
      else el(item, 'button.where', {on: {click: () => showPlace(x)}}, x[0]);
      if (x.length > 2) copyButton(item, pixel(k, x).join(' '), 'copy x ' + pixel(k, x).join(', y '));
    });
    if (placed(k).length) el(d, 'button', {id: 'places', on: {click: () => save('places.geojson', placesText(k))}}, 'places for QuPath' + (D.bounds[k] ? ' (from ' + D.bounds[k].join(', ') + ' on)' : ''));
  }
  if (COMMANDS[k]) putCommand(d, 'Copy the slide again if its file is damaged; then, with your folders: ', COMMANDS[k]);
  const grid = el(d, 'div.grid2.first');
  if (p.map || p.thumb) drawMap(el(grid, 'section', {id: 'maps'}), k, p);
  if (D.pool[k] < 0) return d.focus(STAY);
  const numbers = el(grid, 'section'), three = [...FIRST, TISSUE];
  el(numbers, 'h3', {}, 'Numbers');
  drawNumbers(numbers, k, three);
  const experts = el(d, 'details', {on: {toggle: e => { state.experts = e.target.open; }}}), more = D.metrics.map((m, i) => i).filter(i => !three.includes(i));
  experts.open = state.experts;
  el(experts, 'summary', {}, 'For experts: all numbers');
  drawNumbers(experts, k, more);
  if (D.results) {
    putCommand(experts, 'Blurred regions for QuPath: ', "h5spec map --feature focus --class 'Out of focus'" + (poolOf(k).below === null ? '' : ' --below=' + poolOf(k).below) + ' --slide=' + quoted(D.names[k]) + ' -o regions.geojson ' + quoted(D.results));
  }
  d.focus(STAY);
}
// The reasons that have a place, and this in px of level 0.
function placed(k) { return D.why[k].filter(x => x.length > 2); }
function pixel(k, x) { return [Math.round(x[2] * D.width[k]), Math.round(x[3] * D.height[k])]; }
// These as squares of one measured place.
function placesText(k) {
  const half = D.window * D.downsample[k] / 2, from = D.bounds[k] || [0, 0]; // QuPath counts from the corner of what was scanned
  return JSON.stringify({type: 'FeatureCollection', features: placed(k).map(x => {
    const [u, v] = pixel(k, x).map((px, i) => px - from[i]), corners = [[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]];
    return {type: 'Feature', geometry: {type: 'Polygon', coordinates: [corners.map(c => [u + c[0] * half, v + c[1] * half])]},
      properties: {objectType: 'annotation', name: x[0], classification: {name: 'For review', color: [200, 60, 0]}}};
  })});
}
function putCommand(parent, words, command) {
  const line = el(parent, 'p.command', {}, words);
  el(line, 'code', {}, command);
  copyButton(line, command, 'copy command');
}
// The picture that shows a reason, and the place on it.
function showPlace(x) {
  const at = show.dialog.querySelector(x[1] === 2 ? 'img.thumb' : 'canvas.map');
  if (!at) return;
  at.scrollIntoView({block: 'center'});
  if (x.length > 2) {
    look.zoom = 2;
    pointTo(x[2], x[3]);
  }
  at.classList.add('shown');
  setTimeout(() => at.classList.remove('shown'), 1500);
}
function drawNumbers(parent, k, which) {
  const t = el(parent, 'table.plain'), head = el(t, 'tr');
  ['number', 'slide', poolOf(k).counted < LEAST ? '' : 'usually'].forEach(x => el(head, x ? 'th' : 'td', {}, x));
  which.filter(i => D.m[i] && D.m[i][k] !== null).forEach(i => {
    const m = D.metrics[i], row = el(t, 'tr');
    [m.title, number(k, i) + m.unit, i < W1 && poolOf(k).m[i][0] >= LEAST ? shown(poolOf(k).m[i][2], m) + m.unit : ''].forEach((x, j) => el(row, 'td', j ? {} : {title: m.name}, x));
  });
}

// Colour i of n of a map stands for the i-th step of the range.
let steps = null;
function colourSteps() {
  if (!steps) {
    steps = new Map();
    P.colours.match(/.{6}/g).forEach((hex, i) => steps.set(parseInt(hex, 16), i));
  }
  return steps;
}
// A frame has the shape of the slide; the map covers less.
function frame(parent, k, width, height) {
  const f = el(parent, 'div.frame'), scale = Math.min(width / D.width[k], height / D.height[k]);
  f.style.width = scale * D.width[k] + 'px';
  f.style.aspectRatio = D.width[k] + ' / ' + D.height[k];
  return el(f, 'div.inner-frame');
}
function place(e, k, m) {
  e.style.left = 100 * m.corner / D.width[k] + '%';
  e.style.top = 100 * m.corner / D.height[k] + '%';
  e.style.width = 100 * m.nx * m.step / D.width[k] + '%';
  e.style.height = 100 * m.ny * m.step / D.height[k] + '%';
}
function registered(parent, k, p, width, height) {
  const inner = ['thumb', 'map'].map(kind => (p[kind] ? frame(parent, k, width, height) : null));
  if (inner[0]) picture(inner[0], 'thumb', p.thumb, 'thumbnail of ' + D.names[k]);
  if (inner[1]) place(picture(inner[1], 'map', p.map, 'map of ' + D.names[k]), k, mapOf(k));
  return inner.filter(Boolean);
}

// Both pictures have one zoom and one cross.
const look = {zoom: 1, x: 0.5, y: 0.5, frames: [], tell: null, map: null};
function drawLook() {
  look.frames.forEach(f => {
    f.style.transform = 'scale(' + look.zoom + ')';
    f.style.transformOrigin = 100 * look.x + '% ' + 100 * look.y + '%';
    const cross = f.parentNode.querySelector('.cross');
    cross.style.left = 100 * look.x + '%';
    cross.style.top = 100 * look.y + '%';
  });
  if (look.tell) look.tell();
}
function zoomBy(factor) {
  look.zoom = Math.max(1, Math.min(16, look.zoom * factor));
  drawLook();
}
const STEPS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};
function zoomKey(e) { // with the focus on a map, arrows move the cross
  const map = document.activeElement.classList.contains('map'), k = state.current;
  if (e.key === '+' || e.key === '-') zoomBy(e.key === '+' ? 2 : 0.5);
  else if (map && STEPS[e.key]) pointTo(look.x + STEPS[e.key][0] * stepOf() / D.width[k], look.y + STEPS[e.key][1] * stepOf() / D.height[k]);
  else return false;
  e.preventDefault();
  return true;
}
function stepOf() { return look.map.step * (look.block || 1); }
function pointTo(x, y) { // parts of the slide's width and height
  look.x = Math.max(0, Math.min(1, x));
  look.y = Math.max(0, Math.min(1, y));
  drawLook();
}
// The pointer's place in the slide. The point of the zoom's origin does not move.
function follow(e) {
  const box = e.currentTarget.getBoundingClientRect();
  const x = (e.clientX - box.left) / box.width, y = (e.clientY - box.top) / box.height;
  if (look.zoom === 1) return pointTo(x, y);
  look.at = [look.x + (x - look.x) / look.zoom, look.y + (y - look.y) / look.zoom];
  if (look.tell) look.tell(look.at);
}
function drawMap(parent, k, p) {
  const m = p.map ? mapOf(k) : null;
  el(parent, 'h3', {}, m ? m.title : 'Picture');
  const pair = el(parent, 'div.big');
  Object.assign(look, {zoom: 1, x: 0.5, y: 0.5, frames: [], tell: null, block: 1, map: m});
  if (p.thumb) {
    look.frames.push(frame(pair, k, 460, 460));
    picture(look.frames[0], 'thumb', p.thumb, 'thumbnail of ' + D.names[k]);
  }
  if (m) look.frames.push(frame(pair, k, 460, 460));
  look.frames.forEach(f => {
    el(f.parentNode, 'div.cross');
    f.parentNode.addEventListener('mousemove', follow);
    f.parentNode.addEventListener('wheel', e => { e.preventDefault(); zoomBy(e.deltaY < 0 ? 2 : 0.5); }, {passive: false});
  });
  const zooms = el(parent, 'div.bar');
  [['zoom in (+)', 2], ['zoom out (-)', 0.5]].forEach(z => el(zooms, 'button', {on: {click: () => zoomBy(z[1])}}, z[0]));
  if (!m) return drawLook();
  const canvas = el(look.frames[look.frames.length - 1], 'canvas.map.hatched', {tabindex: 0, role: 'img',
    'aria-label': m.title + ' of ' + D.names[k] + '; arrow keys move the cross, + and - zoom', 'aria-describedby': 'under'});
  place(canvas, k, m);
  drawScale(parent, m);
  const out = el(parent, 'output', {id: 'under'}, 'Point at the map for its values; arrow keys move the cross.');
  const image = new Image();
  image.onload = () => {
    canvas.width = image.width;
    canvas.height = image.height;
    look.block = Math.ceil(m.nx / image.width);
    const c = canvas.getContext('2d', {willReadFrequently: true});
    c.drawImage(image, 0, 0);
    const pixels = c.getImageData(0, 0, image.width, image.height).data;
    let begun = false;
    look.tell = at => {
      const [u, v] = at || [look.x, look.y], size = m.step * look.block;
      const x = Math.floor((u * D.width[k] - m.corner) / size), y = Math.floor((v * D.height[k] - m.corner) / size);
      if (!begun) return void (begun = true);
      out.textContent = x < 0 || y < 0 || x >= image.width || y >= image.height ? 'outside of the map' :
        under(k, m, look.block, x, y, pixels.subarray(4 * (y * image.width + x), 4 * (y * image.width + x) + 4));
    };
    drawLook();
    canvas.dataset.ready = '1';
  };
  image.src = 'data:image/png;base64,' + p.map;
}
function drawScale(parent, m) {
  const bar = el(parent, 'div.colours');
  el(bar, 'span', {}, 'blurred ' + P.low + ' dB');
  const ramp = el(bar, 'canvas', {width: 256, height: 1, role: 'img', 'aria-label': 'colours of the map, from low to high'});
  el(bar, 'span', {}, P.high + ' dB sharp; hatched: ' + m.none);
  const colours = P.colours.match(/.{6}/g), g = ramp.getContext('2d');
  for (let x = 0; x < 256; x++) {
    g.fillStyle = '#' + colours[Math.floor(x * colours.length / 256)];
    g.fillRect(x, 0, 1, 1);
  }
}
// A picture's pixel is a block of places: the S x S squares round the windows' centres.
function under(k, m, block, x, y, rgba) {
  const a = v => Math.round(m.corner + v * block * m.step), b = (v, n, most) => Math.min(most, Math.round(m.corner + Math.min((v + 1) * block, n) * m.step));
  const place = `level-0 px x ${a(x)} to ${b(x, m.nx, D.width[k])}, y ${a(y)} to ${b(y, m.ny, D.height[k])}: `;
  if (rgba[3] === 0) return place + 'no value';
  const i = colourSteps().get(rgba[0] << 16 | rgba[1] << 8 | rgba[2]), n = P.colours.length / 6;
  if (i === undefined) return place + 'not known: this browser changes colours';
  const value = P.low + (P.high - P.low) * i / (n - 1);
  return place + (i === 0 ? 'at most ' : i === n - 1 ? 'at least ' : '') + value.toFixed(1) + ' dB' +
    (block > 1 ? ` (mean of ${block} \u00d7 ${block} places)` : '');
}

// --- on paper: the slides to look at as cards, then all that are shown as a plain table ---

const MOST_PRINTED = 500;
function makePrint() {
  const d = clear(show.print), chosen = view.filter(stands);
  const n = [3, 2].map(v => chosen.filter(k => D.verdict[k] === v).length), parts = [n[0] && n[0] + (n[0] === 1 ? ' fails' : ' fail'), n[1] && n[1] + ' for review'];
  if (chosen.length) el(d, 'h2', {}, 'Slides to look at: ' + parts.filter(Boolean).join(', '));
  chosen.slice(0, MOST_PRINTED).forEach(k => {
    const card = el(d, 'section.sheet'), text = el(card, 'div');
    el(text, 'h3', {}, D.names[k]);
    el(text, 'b', {}, verdict(k));
    const list = el(text, 'ul.reasons');
    reasons(k).forEach(t => el(list, 'li', {}, t));
    registered(el(card, 'div.pair'), k, picturesOf(k), 180, 130);
  });
  if (chosen.length > MOST_PRINTED) el(d, 'p', {}, 'The first ' + MOST_PRINTED + ' are printed as cards.');
  el(d, 'h2', {}, view.length + ' of ' + N + ' slides');
  const t = el(d, 'table.plain'), columns = COLUMNS.filter(c => ['slide', 'reasons', 'verdict'].includes(c.title) || FIRST.includes(c.metric));
  columns.forEach((c, i) => { if (!i) t.row = el(el(t, 'thead'), 'tr'); el(t.row, 'th', {}, c.title); });
  const body = el(t, 'tbody');
  view.forEach(k => {
    const row = el(body, 'tr');
    columns.forEach(c => el(row, 'td', {}, c.title === 'reasons' ? reasons(k)[0] || '' : c.cell(k)));
  });
}

function begin() {
  app.hidden = false;
  makeCounts();
  el(app, 'h2', {}, 'Slides');
  controls();
  makeTable();
  makeSheet();
  el(app, 'p.keys', {}, 'Keys: j and k move, x marks, Enter opens, Esc closes, p switches between table and pictures, / filters. ' +
    'In a slide, + and - zoom. Download the list to keep marks.');
  show.print = el(app, 'div', {id: 'print'});
  if (P && P.note) el(app, 'p.keys', {}, P.note);
  makePools();
  show.dialog = el(document.body, 'div', {id: 'dialog', role: 'dialog', 'aria-modal': 'true', 'aria-labelledby': 'opened', tabindex: -1, hidden: '', on: {touchstart: swipes, touchend: swipes}});
  show.say = el(app, 'p.said', {role: 'status'});
  if (!P) show.toggle.hidden = true;
  showOnly('all');
  followHash();
  addEventListener('popstate', followHash);
  addEventListener('beforeprint', makePrint);
  addEventListener('afterprint', () => clear(show.print));
  document.addEventListener('DOMContentLoaded', () => { drawRows(); drawSheet(); if (state.open) openSlide(); document.documentElement.dataset.loaded = Math.round(performance.now()); });
  addEventListener('resize', () => { drawRows(); drawSheet(); });
  document.documentElement.dataset.ready = Math.round(performance.now());
}
begin();
})();
