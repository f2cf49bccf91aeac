// live.js - shows a run while it continues. It loads state.js and N.js again and again as scripts,
// because pages from the disk may not read files in another way.
'use strict';
(function () {
const app = document.getElementById('app');
const slides = {};
const AGAIN = '. Run the same command again to continue.';
let state = null, ticks = 0;
let news = {seconds: -1, seen: 0, words: ''}; // the last update, and when this page saw it

function el(parent, name, attributes, text) {
  const e = document.createElement(name);
  for (const k in attributes || {}) e.setAttribute(k, attributes[k]);
  if (text !== undefined) e.textContent = text;
  if (parent) parent.appendChild(e);
  return e;
}
function load(file) {
  const s = el(document.head, 'script', {src: file + '?' + ticks});
  s.onload = s.onerror = () => s.remove();
}
function time(seconds) {
  if (seconds < 100) return Math.round(seconds) + ' s';
  return seconds < 6000 ? Math.round(seconds / 60) + ' min' : (seconds / 3600).toFixed(1) + ' h';
}

const show = {
  line: el(app, 'p', {id: 'line', role: 'status'}),
  bar: el(app, 'progress', {id: 'share', max: 1, value: 0, 'aria-label': 'part of the run that is done'}),
  scale: el(app, 'div', {'class': 'colours'}),
  cards: el(app, 'div', {id: 'cards', 'class': 'cards live'}),
  failed: el(app, 'section', {id: 'failed', hidden: ''}),
};

function drawScale() {
  const c = JSON.parse(document.getElementById('colours').textContent), colours = c.colours.match(/.{6}/g);
  el(show.scale, 'span', {}, 'sharpness: blurred ' + c.low + ' dB');
  const ramp = el(show.scale, 'canvas', {width: 250, height: 1, role: 'img', 'aria-label': 'colours from ' + c.low + ' to ' + c.high + ' dB'});
  el(show.scale, 'span', {}, c.high + ' dB sharp; hatched: no tissue');
  const g = ramp.getContext('2d');
  colours.forEach((hex, x) => {
    g.fillStyle = '#' + hex;
    g.fillRect(x, 0, 1, 1);
  });
}
function card(number) {
  let c = document.getElementById('slide' + number);
  if (c) return c;
  c = el(null, 'figure', {id: 'slide' + number, 'class': 'card'});
  el(el(c, 'div', {'class': 'pair'}), 'span', {'class': 'none'}, 'no picture');
  el(c, 'figcaption');
  el(c, 'small');
  return c;
}
// A new picture replaces the old one when it is loaded: the card never flickers.
function picture(c, number, rows) {
  if (c.dataset.rows === String(rows)) return;
  const image = new Image();
  image.className = 'map';
  image.alt = 'map of ' + slides[number].name;
  image.onload = () => {
    const pair = c.querySelector('.pair');
    pair.replaceChildren(image);
    const scale = Math.min(348 / image.naturalWidth, 206 / image.naturalHeight);
    image.style.width = scale * image.naturalWidth + 'px';
    image.style.height = scale * image.naturalHeight + 'px';
    image.style.backgroundSize = '100% ' + 100 * rows / slides[number].ny + '%'; // hatching, as far as it is computed
    c.dataset.rows = rows;
  };
  image.src = number + '.png?' + ticks;
}
window.slide = s => {
  slides[s.number] = s;
  const c = document.getElementById('slide' + s.number);
  if (!c) return;
  c.querySelector('figcaption').textContent = s.name;
  c.querySelector('small').textContent = s.rows < s.ny ? 'row ' + s.rows + ' of ' + s.ny :
    s.sharpness === null ? 'sharpness not known' : 'sharpness ' + s.sharpness.toFixed(1) + ' dB';
  if (s.drawn) picture(c, s.number, s.drawn);
};
window.live = s => {
  state = s;
  const running = s.status === 'running';
  const left = s.status === 'complete' ? '' : !running ? AGAIN : s.left === null ? ', time left not known yet' : ', about ' + time(s.left) + ' left';
  const words = {running: 'running', complete: 'complete', stopped: 'stopped by a signal', failed: 'ended with an error'};
  news.words = words[s.status] + ': ' + s.done + ' of ' + s.stores + ' slides done' + (s.before ? ', ' + s.before + ' skipped' : '') + ', ' +
    s.failed + ' failed' + (s.current ? running ? ', 1 in progress' : ', 1 not finished' : '') + '; ' + Math.round(s.rate) + ' windows/s, ' + time(s.seconds) + left;
  show.bar.value = s.share;
  if (s.seconds !== news.seconds) {
    // An update that was there before this page is as old as the run's clock says, later ones as old as this page has known them.
    news.seen = news.seconds < 0 ? Math.min(Date.now(), 1000 * s.at) : Date.now();
    news.seconds = s.seconds;
  }
  age();
  const wanted = (s.current ? [s.current] : []).concat(s.newest.filter(n => n !== s.current));
  const cards = wanted.map(card);
  if ([...show.cards.children].map(c => c.id).join() !== cards.map(c => c.id).join()) show.cards.replaceChildren(...cards);
  wanted.forEach(n => { if (!slides[n] || slides[n].rows < slides[n].ny || !document.getElementById('slide' + n).querySelector('figcaption').textContent) load(n + '.js'); });
  failures(s);
};
function failures(s) {
  show.failed.hidden = !s.failures.length;
  show.failed.replaceChildren();
  el(show.failed, 'h2', {}, 'Failed');
  const t = el(show.failed, 'table', {'class': 'plain'});
  s.failures.forEach(f => {
    const row = el(t, 'tr');
    el(row, 'td', {}, f[0]);
    el(row, 'td', {}, f[1]);
  });
  if (s.failed > s.failures.length) el(show.failed, 'p', {}, 'and ' + (s.failed - s.failures.length) + ' more');
}
// A killed run cannot say so: without news for long, the page says it.
function age() {
  const quiet = (Date.now() - news.seen) / 1000, stale = state.status === 'running' && quiet > Math.max(60, 10 * state.every);
  show.line.textContent = (stale ? 'Nothing was written for ' + time(quiet) + ': the run may have been killed. If so, run the same command again to continue. ' +
    'Last news: ' : '') + news.words + (stale || state.status !== 'running' ? '' : '; news ' + time(quiet) + ' ago');
  show.line.classList.toggle('stale', stale);
  document.title = (stale ? 'no news, ' : state.status === 'running' ? '' : state.status + ', ') + Math.floor(100 * state.share) + ' % \u2013 h5spec run';
}
function tick() {
  ticks++;
  if (!state || state.status === 'running') load('state.js');
  if (state) age();
  setTimeout(tick, state ? Math.max(500, 1000 * state.every) : 500);
}
drawScale();
tick();
document.documentElement.dataset.ready = '1';
})();
