// The answers of /graph and /communities as the map wants them: notes that know their neighbours, in groups.
//
// A note: {id, path, title, domain, pagerank, community, out, in, types, group, size}. `types` has, by the id of a note
// that it links to, the types of these links with their words.
// A group: {number, label, about, best, known, count, members}, largest first. `known` says that it is a community of
// the index; `best` is its best note, by whose title (`label`) it goes, and `about` is what the index calls it.

export function read(picture, communities) {
  const ids = new Map(picture.nodes.map((node, id) => [node.path, id]));
  const notes = picture.nodes.map((node, id) => ({ ...node, id, out: [], in: [], types: new Map() }));
  const linked = new Set();
  for (const { source, target, type, relation } of picture.edges) {
    const [from, to] = [notes[ids.get(source)], notes[ids.get(target)]];
    if (type) from.types.set(to.id, (from.types.get(to.id) ?? new Map()).set(type, relation));
    if (linked.has(`${from.id} ${to.id}`)) continue; // the same two notes, by a link of another kind or type
    linked.add(`${from.id} ${to.id}`);
    from.out.push(to);
    to.in.push(from);
  }
  const labels = new Map(communities.map((found) => [`${found.domain} ${found.id}`, found.label]));
  const groups = gather(notes, labels, new Set(notes.map((note) => note.domain)).size > 1);
  const best = Math.max(...notes.map((note) => note.pagerank ?? 0)) || 1;
  const most = Math.max(...notes.map((note) => note.out.length + note.in.length)) || 1;
  const smallest = Math.min(5, Math.max(1.5, 90 / Math.sqrt(notes.length)));
  for (const note of notes) {
    const weight = note.pagerank === null ? (note.out.length + note.in.length) / most : note.pagerank / best;
    note.size = smallest + 11 * Math.sqrt(weight) * Math.min(1, smallest / 2.2);
  }
  return { notes, groups };
}

// The types of the links from a note to another, with their words.
export const typesOf = (from, to) => [...(from.types.get(to.id) ?? [])];

// Put every note into a group: its community; without one, that of the notes it hangs together with.
function gather(notes, labels, manyDomains) {
  const byKey = new Map();
  const groupOf = (key, about) => {
    if (!byKey.has(key)) byKey.set(key, { about, known: about !== null, members: [] });
    return byKey.get(key);
  };
  const spread = (start) => {
    for (const note of start) {
      for (const other of [...note.out, ...note.in]) {
        if (other.group) continue;
        other.group = note.group;
        start.push(other);
      }
    }
  };
  for (const note of notes.filter((some) => some.community !== null)) {
    const key = `${note.domain} ${note.community}`;
    const label = labels.get(key) ?? `community ${note.community}`;
    note.group = groupOf(key, manyDomains ? `${label} · ${note.domain}` : label);
  }
  spread(notes.filter((note) => note.group));
  for (const note of notes) {
    if (note.group) continue;
    note.group = groupOf(note, null);
    spread([note]);
  }
  for (const note of notes) note.group.members.push(note);
  const groups = [...byKey.values()].sort((a, b) => b.members.length - a.members.length || a.members[0].id - b.members[0].id);
  groups.forEach((group, number) => {
    const best = group.members.reduce((a, b) => ((b.pagerank ?? 0) > (a.pagerank ?? 0) ? b : a));
    Object.assign(group, { number, best, label: best.title, count: group.members.length });
  });
  return groups;
}
