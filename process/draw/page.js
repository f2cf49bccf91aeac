// page.js - shows the numbers of a report (report_data.c writes them). No library, no request.
'use strict';
(function () {
const D = JSON.parse(document.getElementById('data').textContent);
const N = D.names.length, NS = 'http://www.w3.org/2000/svg';
const W1 = D.metrics.length - 1, ROW = 30;
const CURVES = D.hist.length > 0; // false: histograms and profiles of slides did not fit
const VERDICTS = ['', 'pass', 'warn', 'fail'];
const DIGITS = {};
'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'.split('').forEach((c, k) => { DIGITS[c] = k; });

// --- small helpers ---

function el(parent, name, attributes, text) {
  const e = document.createElement(name);
  for (const k in attributes || {}) {
    if (k === 'on') for (const type in attributes.on) e.addEventListener(type, attributes.on[type]);
    else e.setAttribute(k, attributes[k]);
  }
  if (text !== undefined) e.textContent = text;
  if (parent) parent.appendChild(e);
  return e;
}
function svg(parent, name, attributes, text) {
  const e = document.createElementNS(NS, name);
  for (const k in attributes || {}) e.setAttribute(k, attributes[k]);
  if (text !== undefined) e.textContent = text;
  if (parent) parent.appendChild(e);
  return e;
}
function clear(e) { while (e.firstChild) e.removeChild(e.firstChild); return e; }
function fixed(x, digits) { return x === null || x === undefined ? '' : x.toFixed(digits); }
function number(k, m) { return fixed(D.m[m][k], D.metrics[m].digits); }
function reasons(k) { return D.why[k] || []; }
function old(k) { return D.version[k] < 2 ? 1 : 0; } // then the map is that of mean_db
function poolOf(k) { return D.pools[D.pool[k]]; }
function share(k, cell) { // 1/dB
  const at = 2 * (k * D.cells.n + cell);
  return (DIGITS[D.hist[at]] * 64 + DIGITS[D.hist[at + 1]]) * D.cells.max / 4095;
}
function zscore(k, m) { // as in report_scores.c
  const s = poolOf(k).m[m], x = D.m[m][k];
  return x === null || s[0] < 10 || !(s[4] > 0) || !D.metrics[m].scored ? null : 0.6745 * (x - s[2]) / s[4];
}

// --- which slides are shown, in which order ---

const state = {sort: W1, down: true, filter: '', flagged: false, pool: -1, current: -1, pictures: false, open: false};
const marks = new Set();
let view = [];

let COLUMNS = [
  {title: 'mark', cell: k => (marks.has(k) ? '\u2713' : ''), value: k => (marks.has(k) ? 1 : 0)},
  {title: 'slide', cell: k => D.names[k], value: k => D.names[k]},
  {title: 'reasons', cell: k => reasons(k).join('; '), value: k => (D.flagged[k] ? 1000 : 0) + reasons(k).length},
];
if (D.limits) COLUMNS.push({title: 'verdict', cell: k => VERDICTS[D.verdict[k]], value: k => D.verdict[k]});
D.metrics.forEach((m, i) => COLUMNS.push({title: m.name, metric: i, cell: k => number(k, i), value: k => D.m[i][k]}));
COLUMNS.push({title: 'windows', cell: k => String(D.windows[k]), value: k => D.windows[k]});
if (CURVES) COLUMNS.push({title: 'histogram', spark: true, value: k => D.m[0][k]});
COLUMNS.push({title: 'pool', cell: k => poolOf(k).label, value: k => poolOf(k).label});
COLUMNS = COLUMNS.filter(c => c.metric === undefined || D.m[c.metric].some(x => x !== null));
state.sort = Math.max(1, COLUMNS.findIndex(c => c.metric === W1));

// "word" is part of a name, a pool or a reason; "focus_p50<-40" compares a metric.
function makeFilter(text) {
  const tests = text.toLowerCase().split(/\s+/).filter(Boolean).map(word => {
    const c = word.match(/^([a-z0-9_]+)(<=|>=|<|>|=)(-?[0-9.]+)$/);
    const i = c ? D.metrics.findIndex(m => m.name === c[1]) : -1;
    const column = i >= 0 ? D.m[i] : c && c[1] === 'windows' ? D.windows : null;
    if (column) {
      const limit = Number(c[3]);
      return k => column[k] !== null && (c[2] === '<' ? column[k] < limit : c[2] === '>' ? column[k] > limit :
        c[2] === '<=' ? column[k] <= limit : c[2] === '>=' ? column[k] >= limit : column[k] === limit);
    }
    return k => (D.names[k] + '\n' + poolOf(k).label + '\n' + reasons(k).join('\n') + '\n' +
      VERDICTS[D.verdict[k]]).toLowerCase().includes(word);
  });
  return k => tests.every(t => t(k));
}
function compare(a, b) { // values that are missing come last, whatever the order
  const value = COLUMNS[state.sort].value, x = value(a), y = value(b);
  if (x === null || y === null) return x === y ? a - b : x === null ? 1 : -1;
  const order = typeof x === 'string' ? (x < y ? -1 : x > y ? 1 : 0) : x - y;
  return (state.down ? -order : order) || a - b;
}
function refresh() {
  const test = makeFilter(state.filter);
  view = [];
  for (let k = 0; k < N; k++)
    if ((!state.flagged || D.flagged[k]) && (state.pool < 0 || D.pool[k] === state.pool) && test(k)) view.push(k);
  view.sort(compare);
  if (!view.includes(state.current)) state.current = view.length ? view[0] : -1;
  show.count.textContent = view.length + ' of ' + N + ' slides' + (marks.size ? ', ' + marks.size + ' marked' : '');
  drawHead();
  drawRows();
  drawSheet();
}

// --- pictures: texts in script elements of 64 slides each, read when they are needed ---

const P = document.getElementById('pictures') ? JSON.parse(document.getElementById('pictures').textContent) : null;
const blocks = {};
function picturesOf(k) { // {map, thumb, tissue, glass}: base64 texts, "" where there is none
  const b = Math.floor(k / (P ? P.per : 1));
  if (!P) return {};
  if (!blocks[b]) {
    const e = document.getElementById('p' + b); // it may not be there yet while the page is being loaded
    if (!e || (document.readyState === 'loading' && !e.nextElementSibling)) return {};
    blocks[b] = e.textContent.split('\n');
  }
  const f = (blocks[b][k % P.per] || '').split(' ');
  return {map: f[0] || '', thumb: f[1] || '', tissue: f[2] || '', glass: f[3] || ''};
}
function picture(parent, kind, text, alt) {
  if (!text) return null;
  return el(parent, 'img', {src: 'data:image/' + (kind === 'thumb' ? 'jpeg' : 'png') + ';base64,' + text, alt: alt, 'class': kind});
}

// --- controls ---

const app = document.getElementById('app');
const show = {};
function controls() {
  const bar = el(app, 'div', {'class': 'bar'});
  show.filter = el(bar, 'input', {type: 'search', id: 'filter', placeholder: 'filter: words, or focus_p50<-40',
    'aria-label': 'filter', on: {input: e => { state.filter = e.target.value; refresh(); }}});
  const label = el(bar, 'label');
  show.flagged = el(label, 'input', {type: 'checkbox', id: 'flagged', on: {change: e => { state.flagged = e.target.checked; refresh(); }}});
  label.appendChild(document.createTextNode(' only those to look at'));
  if (D.pools.length > 1) {
    show.pool = el(bar, 'select', {id: 'pool', 'aria-label': 'pool', on: {change: e => { state.pool = Number(e.target.value); refresh(); drawHistogram(); }}});
    el(show.pool, 'option', {value: -1}, 'all pools');
    D.pools.forEach((p, i) => el(show.pool, 'option', {value: i}, p.label + ' (' + p.n + ')'));
  }
  show.toggle = el(bar, 'button', {id: 'toggle', type: 'button', on: {click: togglePictures}}, 'pictures');
  el(bar, 'button', {id: 'download', type: 'button', on: {click: download}}, 'download list');
  show.count = el(bar, 'span', {id: 'count', role: 'status'});
}
function togglePictures() {
  state.pictures = !state.pictures;
  show.toggle.textContent = state.pictures ? 'table' : 'pictures';
  show.table.hidden = state.pictures;
  show.sheet.hidden = !state.pictures;
  drawRows();
  drawSheet();
}
// The marked slides; without marks, those that are shown.
function listText() {
  const chosen = marks.size ? view.filter(k => marks.has(k)).concat([...marks].filter(k => !view.includes(k))) : view;
  return chosen.map(k => D.names[k] + '\n').join('');
}
function download() {
  const url = URL.createObjectURL(new Blob([listText()], {type: 'text/plain'}));
  const a = el(document.body, 'a', {href: url, download: 'slides.txt'});
  a.click();
  a.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// --- the table: only the rows in sight exist ---

function makeTable() {
  show.table = el(app, 'div', {id: 'table', tabindex: 0, role: 'grid', 'aria-rowcount': N});
  show.head = el(show.table, 'div', {'class': 'row head', role: 'row'});
  COLUMNS.forEach((c, i) => el(show.head, 'button', {type: 'button', role: 'columnheader', 'class': classOf(c), 'data-column': i,
    on: {click: () => sortBy(i)}}, c.title));
  show.space = el(show.table, 'div', {'class': 'space'});
  show.rows = el(show.space, 'div', {'class': 'rows'});
  show.table.addEventListener('scroll', drawRows);
}
function classOf(c) { return c.metric !== undefined || c.title === 'windows' ? 'number' : c.title; }
function sortBy(i) {
  state.down = state.sort === i ? !state.down : COLUMNS[i].title !== 'slide' && COLUMNS[i].title !== 'pool';
  state.sort = i;
  show.table.scrollTop = 0;
  refresh();
}
function drawHead() {
  [...show.head.children].forEach((b, i) => b.setAttribute('aria-sort', i !== state.sort ? 'none' : state.down ? 'descending' : 'ascending'));
}
function spark(parent, k) {
  const s = svg(parent, 'svg', {viewBox: '0 0 100 22', 'class': 'spark', preserveAspectRatio: 'none'});
  if (!D.windows[k] || !D.cells.n) return;
  let most = 0;
  for (let c = 0; c < D.cells.n; c++) most = Math.max(most, share(k, c));
  let d = 'M0 22';
  for (let c = 0; c < D.cells.n; c++) d += 'L' + (100 * (c + 0.5) / D.cells.n).toFixed(1) + ' ' + (22 - 21 * share(k, c) / (most || 1)).toFixed(1);
  svg(s, 'path', {d: d + 'L100 22Z'});
}
function drawRows() {
  if (state.pictures) return;
  show.space.style.height = view.length * ROW + 'px';
  show.table.style.height = 'min(60vh, ' + ((Math.max(3, N) + 1) * ROW + 20) + 'px)';
  const first = Math.max(0, Math.floor((show.table.scrollTop - ROW) / ROW) - 5);
  const last = Math.min(view.length, first + Math.ceil(show.table.clientHeight / ROW) + 12);
  clear(show.rows).style.top = first * ROW + 'px';
  for (let i = first; i < last; i++) {
    const k = view[i];
    const row = el(show.rows, 'div', {'class': 'row' + (k === state.current ? ' current' : '') + (D.flagged[k] ? ' flag' : ''), role: 'row',
      'data-slide': k, 'aria-rowindex': i + 1, on: {click: () => { state.current = k; openSlide(); }}});
    COLUMNS.forEach(c => {
      const z = c.metric !== undefined && c.metric < W1 ? zscore(k, c.metric) : null;
      const cell = el(row, 'span', {role: 'gridcell', 'class': classOf(c) + (z !== null && Math.abs(z) > 3.5 ? ' odd' : '')}, c.spark ? undefined : c.cell(k));
      if (z !== null) cell.title = 'z ' + z.toFixed(1);
      if (c.title === 'reasons' || c.title === 'slide') cell.title = c.cell(k);
      if (c.spark) spark(cell, k);
    });
  }
}

// --- the contact sheet: thumbnail beside map ---

const CARD_W = 268, CARD_H = 178;
function makeSheet() {
  show.sheet = el(app, 'div', {id: 'sheet', tabindex: 0, hidden: ''});
  show.cards = el(el(show.sheet, 'div', {'class': 'space'}), 'div', {'class': 'cards'});
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
    const card = el(show.cards, 'figure', {'class': 'card' + (k === state.current ? ' current' : '') + (marks.has(k) ? ' marked' : '') +
      (D.flagged[k] ? ' flag' : ''), 'data-slide': k, on: {click: () => { state.current = k; openSlide(); }}});
    const pair = el(card, 'div', {'class': 'pair'});
    picture(pair, 'thumb', p.thumb, 'thumbnail');
    const map = picture(pair, 'map', p.map, 'map'), scale = Math.min(124 / D.nx[k], 112 / D.ny[k]);
    if (map) {
      map.style.width = scale * D.nx[k] + 'px';
      map.style.height = scale * D.ny[k] + 'px';
    }
    if (!p.thumb && !p.map) el(pair, 'span', {'class': 'none'}, 'no picture');
    const mark = el(card, 'button', {type: 'button', 'class': 'mark', 'aria-pressed': marks.has(k), title: 'mark (x)',
      on: {click: e => { e.stopPropagation(); state.current = k; toggleMark(); }}}, marks.has(k) ? '\u2713' : '\u00a0');
    mark.tabIndex = -1;
    el(card, 'figcaption', {title: D.names[k]}, D.names[k]);
    el(card, 'small', {title: reasons(k).join('; ')}, reasons(k)[0] || COLUMNS[state.sort].title + ' ' +
      (COLUMNS[state.sort].cell ? COLUMNS[state.sort].cell(k) : ''));
  });
}

// --- keys ---

function toggleMark() {
  const k = state.current;
  if (k < 0) return;
  if (!marks.delete(k)) marks.add(k);
  show.count.textContent = view.length + ' of ' + N + ' slides' + (marks.size ? ', ' + marks.size + ' marked' : '');
  drawRows();
  drawSheet();
  if (state.open) openSlide();
}
function move(by) {
  if (!view.length) return;
  const at = view.indexOf(state.current) + by;
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
  if (state.open) openSlide();
}
const KEYS = {
  j: () => move(1), k: () => move(-1), x: toggleMark, p: togglePictures,
  ArrowDown: () => move(state.pictures ? perRow() : 1), ArrowUp: () => move(state.pictures ? -perRow() : -1),
  Enter: () => { if (state.current >= 0) openSlide(); }, Escape: closeSlide, '/': () => show.filter.focus(),
};
document.addEventListener('keydown', e => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName);
  if (e.ctrlKey || e.metaKey || e.altKey || (typing && e.key !== 'Escape')) return;
  if (e.key === 'Enter' && e.target.tagName === 'BUTTON') return;
  if (!KEYS[e.key]) return;
  e.preventDefault();
  if (typing) e.target.blur();
  KEYS[e.key]();
});

// --- axes and curves ---

function panel(parent, w, h, x0, x1, y1, xlabel, ylabel) {
  const s = svg(parent, 'svg', {viewBox: '0 0 ' + w + ' ' + h, 'class': 'panel', role: 'img', 'aria-label': ylabel + ' against ' + xlabel});
  const q = {s: s, x: v => 56 + (w - 68) * (v - x0) / ((x1 - x0) || 1), y: v => h - 40 - (h - 52) * v / (y1 || 1)};
  const step = [1, 2, 5, 10, 20, 50].find(t => (x1 - x0) / t <= 10) || 100;
  for (let v = Math.ceil(x0 / step) * step; v <= x1; v += step) {
    svg(s, 'line', {x1: q.x(v), x2: q.x(v), y1: 12, y2: h - 40, 'class': 'grid'});
    svg(s, 'text', {x: q.x(v), y: h - 24, 'text-anchor': 'middle'}, String(v));
  }
  for (let i = 0; i <= 4; i++) {
    svg(s, 'line', {x1: 56, x2: w - 12, y1: q.y(y1 * i / 4), y2: q.y(y1 * i / 4), 'class': 'grid'});
    svg(s, 'text', {x: 50, y: q.y(y1 * i / 4) + 4, 'text-anchor': 'end'}, String(Number((y1 * i / 4).toPrecision(2))));
  }
  svg(s, 'text', {x: (56 + w - 12) / 2, y: h - 6, 'text-anchor': 'middle'}, xlabel);
  svg(s, 'text', {x: 60, y: 10}, ylabel);
  return q;
}
function cellAt(c) { return D.cells.low + D.cells.step * (c + 0.5); }
function path(q, f) {
  let d = '';
  for (let c = 0; c < D.cells.n; c++) d += (c ? 'L' : 'M') + q.x(cellAt(c)).toFixed(1) + ' ' + q.y(f(c)).toFixed(1);
  return d;
}
function area(q, low, high) {
  let d = path(q, c => high[c]);
  for (let c = D.cells.n - 1; c >= 0; c--) d += 'L' + q.x(cellAt(c)).toFixed(1) + ' ' + q.y(low[c]).toFixed(1);
  return d + 'Z';
}
function histogramPanel(parent, pool, slides, w, h) {
  const p = D.pools[pool];
  let top = 0;
  p.bands[4].forEach(v => { top = Math.max(top, v); });
  slides = CURVES ? slides : [];
  slides.forEach(k => { for (let c = 0; c < D.cells.n; c++) top = Math.max(top, share(k, c)); });
  const q = panel(parent, w, h, D.cells.low, D.cells.low + D.cells.step * D.cells.n, top, 'log magnitude (dB)', 'share per dB');
  if (p.counted) {
    svg(q.s, 'path', {d: area(q, p.bands[0], p.bands[4]), 'class': 'outer'});
    svg(q.s, 'path', {d: area(q, p.bands[1], p.bands[3]), 'class': 'inner'});
    svg(q.s, 'path', {d: path(q, c => p.bands[2][c]), 'class': 'median'});
  }
  slides.forEach(k => {
    const line = svg(q.s, 'path', {d: path(q, c => share(k, c)), 'class': 'slide', 'data-slide': k});
    svg(line, 'title', {}, D.names[k]);
    line.addEventListener('click', () => { state.current = k; openSlide(); });
  });
  return q;
}

// --- the histogram of a pool, and its outliers ---

function makeHistogram() {
  el(app, 'h2', {}, 'Histogram');
  show.histogramNote = el(app, 'p');
  show.histogram = el(app, 'div', {id: 'histogram'});
}
function largestPool() { return D.pools.reduce((best, p, i) => (p.counted > D.pools[best].counted ? i : best), 0); }
function drawHistogram() {
  clear(show.histogram);
  if (!D.pools.length || !D.cells.n) {
    show.histogramNote.textContent = 'No slide has a histogram.';
    return;
  }
  const pool = state.pool >= 0 ? state.pool : largestPool();
  const members = [];
  for (let k = 0; k < N; k++) if (D.pool[k] === pool && D.windows[k]) members.push(k);
  members.sort((a, b) => D.m[W1][b] - D.m[W1][a]);
  const outliers = members.slice(0, Math.min(10, Math.floor(members.length / 4)));
  show.histogramNote.textContent = 'Pool ' + D.pools[pool].label + ': median of ' + members.length +
    (members.length === 1 ? ' slide' : ' slides') + ', bands of 25 to 75 % and 5 to 95 %' + (outliers.length && CURVES ? '; lines: the ' + outliers.length +
    ' slides that lie farthest from the median (W1). Click a line to open its slide.' : '.');
  histogramPanel(show.histogram, pool, outliers, 900, 300);
}

// --- groups ---

function makePools() {
  el(app, 'h2', {}, 'Pools');
  el(app, 'p', {}, 'Median and quartiles. Slides are compared within their pool only.');
  const t = el(el(app, 'div', {'class': 'wide'}), 'table', {id: 'pools', 'class': 'plain'}), head = el(t, 'tr');
  ['pool', 'slides', 'with windows'].concat(D.metrics.slice(0, W1).map(m => m.name)).forEach(x => el(head, 'th', {}, x));
  D.pools.forEach(p => {
    const row = el(t, 'tr');
    [p.label, p.n, p.counted].forEach(x => el(row, 'td', {}, String(x)));
    p.m.forEach((s, i) => el(row, 'td', {}, s[0] ? fixed(s[2], D.metrics[i].digits) + ' (' + fixed(s[1], D.metrics[i].digits) + ' to ' +
      fixed(s[3], D.metrics[i].digits) + ')' : ''));
  });
  if (D.pools.length > 1) {
    const row = el(t, 'tr');
    el(row, 'th', {colspan: 3}, 'between pools (eta\u00b2)');
    D.eta.forEach(x => el(row, 'td', {}, x === null ? '' : (100 * x).toFixed(0) + ' %'));
  }
}

// --- one slide ---

function closeSlide() {
  state.open = false;
  show.dialog.hidden = true;
  (state.pictures ? show.sheet : show.table).focus({preventScroll: true});
}
function section(parent, title) {
  const s = el(parent, 'section');
  el(s, 'h3', {}, title);
  return s;
}
function openSlide() {
  const k = state.current, p = picturesOf(k), d = clear(show.dialog);
  state.open = true;
  d.hidden = false;
  const bar = el(d, 'div', {'class': 'bar'});
  el(bar, 'h2', {id: 'opened'}, D.names[k]);
  [['previous (k)', () => move(-1)], ['next (j)', () => move(1)], [marks.has(k) ? 'unmark (x)' : 'mark (x)', toggleMark],
    ['close (Esc)', closeSlide]].forEach(b => el(bar, 'button', {type: 'button', on: {click: b[1]}}, b[0]));
  el(d, 'p', {}, poolOf(k).label + ', ' + D.width[k] + ' \u00d7 ' + D.height[k] + ' px, ' + D.windows[k] + ' of ' + D.nx[k] * D.ny[k] + ' windows');
  if (reasons(k).length) {
    const list = el(d, 'ul', {'class': 'reasons'});
    reasons(k).forEach(t => el(list, 'li', {}, t));
  }
  const grid = el(d, 'div', {'class': 'grid2'});
  if (p.map || p.thumb) drawMap(section(grid, P.features[old(k)] + ' (dB)'), k, p);
  if (D.windows[k] && D.cells.n) histogramPanel(section(grid, 'Histogram in its pool'), D.pool[k], [k], 520, 260);
  if (D.profile[k]) drawProfile(section(grid, 'Profile in its pool'), k);
  if (p.tissue || p.glass) drawSpectra(section(grid, 'Mean spectrum'), p);
  drawNumbers(section(grid, 'Numbers'), k);
  d.focus({preventScroll: true});
}
function drawNumbers(parent, k) {
  const t = el(parent, 'table', {'class': 'plain'}), head = el(t, 'tr');
  ['', 'slide', 'median of the pool', 'z'].forEach(x => el(head, 'th', {}, x));
  D.metrics.forEach((m, i) => {
    const row = el(t, 'tr'), z = i < W1 ? zscore(k, i) : null;
    [m.name + (m.unit ? ' (' + m.unit + ')' : ''), number(k, i), i < W1 ? fixed(poolOf(k).m[i][2], m.digits) : '', z === null ? '' : z.toFixed(1)]
      .forEach(x => el(row, 'td', {}, x));
  });
}
function drawProfile(parent, k) {
  const own = D.profile[k], q3 = poolOf(k).profile;
  let top = 0;
  own.concat(q3[2]).forEach(v => { top = Math.max(top, v || 0); });
  const q = panel(parent, 520, 240, 0, 5, top * 1.05, 'octave: 1/128 to 1/64 ... 1/4 to 1/2 cycles/px', 'level (dB)');
  const line = (v, name) => {
    let d = '';
    v.forEach((x, j) => { if (x !== null) d += (d ? 'L' : 'M') + q.x(j).toFixed(1) + ' ' + q.y(x).toFixed(1); });
    svg(q.s, 'path', {d: d, 'class': name});
  };
  if (q3[0].every(x => x !== null)) {
    let d = '';
    q3[2].forEach((x, j) => { d += (j ? 'L' : 'M') + q.x(j).toFixed(1) + ' ' + q.y(x).toFixed(1); });
    for (let j = 5; j >= 0; j--) d += 'L' + q.x(j).toFixed(1) + ' ' + q.y(q3[0][j]).toFixed(1);
    svg(q.s, 'path', {d: d + 'Z', 'class': 'inner'});
    line(q3[1], 'median');
  }
  line(own, 'slide');
}
function drawSpectra(parent, p) {
  [['tissue', p.tissue], ['glass', p.glass]].forEach(x => {
    if (!x[1]) return;
    const f = el(parent, 'figure', {'class': 'spectrum'});
    picture(f, 'spectrum', x[1], 'spectrum of ' + x[0]);
    el(f, 'figcaption', {}, x[0] + ': frequency 0 in the middle, 1/2 cycle/px at the edges; ' + P.spectrumLow + ' to ' + P.spectrumHigh + ' dB');
  });
}

// The map is a picture whose colours are numbers: colour i of n stands for the i-th step of the range.
let steps = null;
function colourSteps() {
  if (!steps) {
    steps = new Map();
    P.colours.match(/.{6}/g).forEach((hex, i) => steps.set(parseInt(hex, 16), i));
  }
  return steps;
}
function drawMap(parent, k, p) {
  const pair = el(parent, 'div', {'class': 'big'});
  picture(pair, 'thumb', p.thumb, 'thumbnail');
  if (!p.map) return;
  const canvas = el(pair, 'canvas', {'class': 'map hatched', tabindex: 0, 'aria-label': 'map'});
  const bar = el(parent, 'div', {'class': 'colours'});
  el(bar, 'span', {}, P.low[old(k)] + ' dB');
  const ramp = el(bar, 'canvas', {width: 256, height: 1});
  el(bar, 'span', {}, P.high[old(k)] + ' dB');
  const colours = P.colours.match(/.{6}/g), g = ramp.getContext('2d');
  for (let x = 0; x < 256; x++) {
    g.fillStyle = '#' + colours[Math.floor(x * colours.length / 256)];
    g.fillRect(x, 0, 1, 1);
  }
  const out = el(parent, 'output', {id: 'under'}, 'Point at the map for its values.');
  const image = new Image();
  image.onload = () => {
    canvas.width = image.width;
    canvas.height = image.height;
    const c = canvas.getContext('2d', {willReadFrequently: true});
    c.drawImage(image, 0, 0);
    const pixels = c.getImageData(0, 0, image.width, image.height).data;
    canvas.addEventListener('mousemove', e => {
      const box = canvas.getBoundingClientRect();
      const x = Math.min(image.width - 1, Math.max(0, Math.floor((e.clientX - box.left) / box.width * image.width)));
      const y = Math.min(image.height - 1, Math.max(0, Math.floor((e.clientY - box.top) / box.height * image.height)));
      out.textContent = under(k, image.width, x, y, pixels.subarray(4 * (y * image.width + x), 4 * (y * image.width + x) + 4));
    });
    canvas.dataset.ready = '1';
  };
  image.src = 'data:image/png;base64,' + p.map;
}
// A picture's pixel is a block of windows; its place is that of the S x S squares round their centres.
function under(k, width, x, y, rgba) {
  const block = Math.ceil(D.nx[k] / width), ds = D.downsample[k], S = D.stride, off = (D.window - S) / 2;
  const a = v => Math.round((v * block * S + off) * ds), b = (v, n) => Math.round((Math.min((v + 1) * block, n) * S + off) * ds);
  const place = 'level-0 px x ' + a(x) + ' to ' + b(x, D.nx[k]) + ', y ' + a(y) + ' to ' + b(y, D.ny[k]) + ': ';
  if (rgba[3] === 0) return place + 'no value';
  const i = colourSteps().get(rgba[0] << 16 | rgba[1] << 8 | rgba[2]), n = P.colours.length / 6;
  if (i === undefined) return place + 'this browser changes the colours of pictures, so the value is not known';
  const low = P.low[old(k)], value = low + (P.high[old(k)] - low) * i / (n - 1);
  return place + (i === 0 ? 'at most ' : i === n - 1 ? 'at least ' : '') + value.toFixed(1) + ' dB' +
    (block > 1 ? ' (mean of ' + block + ' \u00d7 ' + block + ' windows)' : '');
}

// --- begin ---

function begin() {
  app.hidden = false;
  el(app, 'h2', {}, 'Slides');
  controls();
  makeTable();
  makeSheet();
  el(app, 'p', {'class': 'keys'}, 'Keys: j and k move, x marks, Enter opens, Esc closes, p switches between table and pictures, / filters. ' +
    'Marks are lost when the page is closed: download the list.');
  if (N && D.cells.n && !CURVES) el(app, 'p', {'class': 'keys'}, 'Histograms and profiles of slides are left out: they do not fit into --max-size.');
  if (P && P.note) el(app, 'p', {'class': 'keys'}, P.note);
  makeHistogram();
  makePools();
  show.dialog = el(document.body, 'div', {id: 'dialog', role: 'dialog', 'aria-labelledby': 'opened', tabindex: -1, hidden: ''});
  if (!P) show.toggle.hidden = true;
  refresh();
  drawHistogram();
  document.addEventListener('DOMContentLoaded', () => { drawSheet(); document.documentElement.dataset.loaded = Math.round(performance.now()); });
  window.addEventListener('resize', () => { drawRows(); drawSheet(); });
  document.documentElement.dataset.ready = Math.round(performance.now());
}
begin();
})();
