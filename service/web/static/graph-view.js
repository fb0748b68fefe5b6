// The part of the map that nothing covers, and the view that brings notes into it.

const MARGIN = 56; // pixels around the notes, for the largest of them and their names
const CLOSEST = 0.2; // the smallest ratio of the camera: a few near notes are not blown up
const NARROW = 200; // pixels: what leaves less beside it is not kept free

const AS_A_WHOLE = { x: 0.5, y: 0.5, angle: 0, ratio: 1 };

// Return the edges of the free part, in pixels of the map: left of the panel, or above it on a small screen.
export function freePart(sigma) {
  const { width, height } = sigma.getDimensions();
  const map = sigma.getContainer().getBoundingClientRect();
  const [panel, legend] = ["panel", "legend"].map((id) => document.getElementById(id));
  const [over, beside] = [panel, legend].map((part) => part.getBoundingClientRect());
  const free = { left: 0, top: 0, right: width, bottom: height };
  if (!panel.hidden) {
    if (over.left <= map.left) return { ...free, bottom: over.top - map.top };
    free.right = over.left - map.left;
  }
  const left = legend.open ? Math.max(0, beside.right - map.left) : 0;
  return free.right - left < NARROW ? free : { ...free, left };
}

// Say whether all these notes are in the free part.
export function areInSight(sigma, notes) {
  const { left, top, right, bottom } = freePart(sigma);
  return notes.map((note) => sigma.getNodeDisplayData(note.id)).every((place) => {
    const { x, y } = sigma.framedGraphToViewport(place);
    const radius = sigma.scaleSize(place.size);
    return x - radius >= left && y - radius >= top && x + radius <= right && y + radius <= bottom;
  });
}

// Return the state of the camera that shows these notes in the middle of the free part, as large as they fit.
export function viewOf(sigma, notes) {
  const { left, top, right, bottom } = freePart(sigma);
  const places = notes.map((note) => sigma.framedGraphToViewport(sigma.getNodeDisplayData(note.id), { cameraState: AS_A_WHOLE }));
  const [across, down] = ["x", "y"].map((axis) => {
    const all = places.map((place) => place[axis]);
    const [least, most] = [Math.min(...all), Math.max(...all)];
    return { middle: (least + most) / 2, span: most - least };
  });
  const share = ({ span }, room) => span / Math.max(room - 2 * MARGIN, MARGIN);
  const ratio = Math.max(CLOSEST, share(across, right - left), share(down, bottom - top));
  const { width, height } = sigma.getDimensions();
  const centre = {
    x: across.middle - ((left + right - width) / 2) * ratio,
    y: down.middle - ((top + bottom - height) / 2) * ratio,
  };
  return { ...sigma.viewportToFramedGraph(centre, { cameraState: AS_A_WHOLE }), ratio };
}
