// Draws a dashboard as SVG: places, sizes, kinds, titles and colours are those of the JSON, what is drawn in the panels is made up. It is
// no screenshot; it shows where things stand to people who have no Grafana at hand.
const unit = { w: 54, h: 20 };
const gap = 3;
const escape = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

// wave is a made-up value between 0 and 1, the same each time.
const wave = (i, k) => 0.5 + 0.3 * Math.sin(i * 0.9 + k * 1.7) + 0.2 * Math.sin(i * 2.3 + k);
const defaults = ['#5794F2', '#73BF69', '#FF9830', '#B877D9', '#FADE2A'];

function coloursOf(p) {
  const of = (o) => o.properties.find((x) => x.id === 'color')?.value.fixedColor;
  const own = p.fieldConfig.overrides.map(of).filter(Boolean);
  return own.length ? own : defaults.slice(0, Math.max(1, Math.min(3, p.targets.length)));
}

// boxes draws many of one colour as one path.
const boxes = (list, fill) => (list.length ? `<path fill="${fill}" d="${list.map(([x, y, w, h]) => `M${x.toFixed(0)} ${y.toFixed(0)}h${w}v${Math.max(1, Math.round(h))}h-${w}z`).join('')}"/>` : '');
const rect = (x, y, w, h, fill, more = '') => `<rect x="${x.toFixed(1)}" y="${y.toFixed(1)}" width="${Math.max(w, 0.5).toFixed(1)}" height="${Math.max(h, 0.5).toFixed(1)}" fill="${fill}"${more}/>`;

// What stands in a panel, in the box from (x, y).
const drawings = {
  // A tile with thresholds shows the colours that it may have.
  stat(p, x, y, w, h) {
    const steps = p.fieldConfig.defaults.thresholds.steps.map((t) => t.color);
    const words = Object.values(p.fieldConfig.defaults.mappings[0]?.options ?? {}).map((o) => o.color);
    const list = [...new Set(words.length ? words : steps)];
    const background = p.options.colorMode === 'background';
    return (background ? list.map((c, i) => rect(x + (i * w) / list.length, y, w / list.length, h, c, ' opacity="0.85"')).join('') : '')
      + `<text x="${x + w / 2}" y="${y + h / 2 + 8}" text-anchor="middle" font-size="22" fill="${background ? '#fff' : list.at(-1)}">?</text>`;
  },
  bars(p, x, y, w, h, colours) {
    const parts = colours.map(() => []);
    for (let i = 0; i < Math.floor(w / 12); i++) {
      let bottom = y + h;
      colours.forEach((c, k) => {
        const height = (wave(i, k) * h) / (colours.length ** 0.7 * 1.1);
        bottom -= height;
        parts[k].push([x + i * 12 + 1, bottom, 9, height]);
      });
    }
    return parts.map((list, k) => boxes(list, colours[k])).join('');
  },
  lines(p, x, y, w, h, colours) {
    return colours.map((c, k) => {
      const points = Array.from({ length: Math.floor(w / 10) + 1 }, (_, i) => `${(x + i * 10).toFixed(0)},${(y + h - (((k + 1) / (colours.length + 1)) * 0.9 + wave(i, k) * 0.15) * h).toFixed(0)}`);
      return `<polyline points="${points.join(' ')}" fill="none" stroke="${c}" stroke-width="2"/>`;
    }).join('');
  },
  heatmap(p, x, y, w, h) {
    const scale = ['#30123b', '#4662d7', '#1ae4b6', '#a4fc3c', '#fb8022', '#e6352b'];
    const parts = scale.map(() => []);
    for (let i = 0; i < Math.floor(w / 14); i++) {
      for (let j = 0; j < Math.floor(h / 10); j++) {
        const heat = Math.exp(-((j - h / 20 - 3 * wave(i, 2)) ** 2) / 8) * wave(i + j, 1);
        if (heat > 0.08) parts[Math.min(5, Math.floor(heat * 7))].push([x + i * 14, y + j * 10, 13, 9]);
      }
    }
    return parts.map((list, k) => boxes(list, scale[k])).join('');
  },
  table(p, x, y, w, h) {
    const names = p.fieldConfig.overrides.map((o) => o.matcher.options).filter((n) => !['from', 'to'].includes(n)).slice(0, Math.floor(w / 75));
    const head = (names.length ? names : ['trace', 'started', 'name', 'duration']).slice(0, Math.floor(w / 75));
    let out = head.map((n, i) => `<text x="${(x + 4 + (i * w) / head.length).toFixed(0)}" y="${y + 10}" font-size="9" fill="#6e9fff">${escape(n)}</text>`).join('');
    const cells = [];
    for (let r = 1; r * 16 + 12 < h; r++) head.forEach((_, i) => cells.push([x + 4 + (i * w) / head.length, y + r * 16 + 5, Math.round(20 + 30 * wave(r, i)), 5]));
    out += boxes(cells, '#555');
    return out;
  },
  bargauge(p, x, y, w, h, colours) {
    const c = p.fieldConfig.defaults.color.fixedColor ?? colours[0];
    return Array.from({ length: Math.floor(h / 20) }, (_, i) => rect(x, y + i * 20, w, 14, '#2a2a2e') + rect(x, y + i * 20, (w * 0.9) / (1 + i * 0.7), 14, c)).join('');
  },
  lanes(p, x, y, w, h) {
    const lanes = p.fieldConfig.overrides.filter((o) => o.matcher.id === 'byName');
    const height = h / lanes.length;
    return lanes.map((o, k) => {
      const c = o.properties.find((q) => q.id === 'color').value.fixedColor;
      let out = `<text x="${x}" y="${y + k * height + height / 2 + 3}" font-size="10" fill="#aaa">${escape(o.matcher.options)}</text>`;
      for (let at = x + 70 + wave(k, 3) * 40 * k, i = 0; at < x + w - 10; i++) {
        const width = Math.min((k < 2 ? 90 : 30) * (0.5 + wave(i, k)), x + w - at);
        out += rect(at, y + k * height + 2, width, height - 4, i % 7 === 5 && k === 2 ? '#F2495C' : c, ' opacity="0.75"');
        at += width + (k < 2 ? 3 : 60 * (0.6 + wave(i, k + 1)) * (k - 1));
      }
      return out;
    }).join('');
  },
};
const kindOf = (p) => {
  if (p.type === 'timeseries' || p.type === 'trend') return p.fieldConfig.defaults.custom.drawStyle === 'bars' ? 'bars' : 'lines';
  return p.type === 'state-timeline' ? 'lanes' : p.type;
};

export function sketch(d) {
  const height = Math.max(...d.panels.map((p) => p.gridPos.y + p.gridPos.h)) * unit.h;
  const out = [`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${24 * unit.w} ${height}" font-family="Inter, Helvetica, Arial, sans-serif">`,
    `<title>${escape(d.title)}: a sketch, no screenshot</title>`, rect(0, 0, 24 * unit.w, height, '#111217')];
  for (const p of d.panels) {
    const [x, y, w, h] = [p.gridPos.x * unit.w + gap, p.gridPos.y * unit.h + gap, p.gridPos.w * unit.w - 2 * gap, p.gridPos.h * unit.h - 2 * gap];
    if (p.type === 'row') {
      out.push(`<text x="${x + 4}" y="${y + 12}" font-size="13" fill="#ccccdc">⌄ ${escape(p.title)}</text>`);
      continue;
    }
    out.push(rect(x, y, w, h, '#181b1f', ' stroke="#2c2f36"'), `<text x="${x + 8}" y="${y + 14}" font-size="11" fill="#ccccdc">${escape(p.title)}</text>`,
      drawings[kindOf(p)](p, x + 8, y + 22, w - 16, h - 30, coloursOf(p)));
  }
  out.push('</svg>', '');
  return out.join('\n');
}
