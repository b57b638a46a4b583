/**
 * Where a scrollbar of pixels stands in a list of millions of rows. In: row count, heights, the viewport. Out: the
 * position as "row + part of it", and the scrollbar's place for it.
 *
 * Browsers cap an element's height (Chromium near 33 million pixels, Firefox near 18), and wrapped rows have
 * heights that nobody wants to measure a million times. So the scrollbar moves through rows, not through pixels: its
 * range is as long as if every row had one line, capped, and its end is the position at which the last row touches
 * the bottom. With equal rows below the cap this is ordinary scrolling.
 */
export interface Geometry {
  rows: number;
  viewport: number;
  lineHeight: number;
  heightOf: (row: number) => number;
}

const SCROLL_MAX_PX = 12_000_000;

/** The position that shows the end. */
export function lastPosition({ rows, viewport, heightOf }: Geometry): number {
  let rest = viewport;
  for (let row = rows - 1; row >= 0; row--) {
    const height = heightOf(row);
    if (height >= rest) return row + (height - rest) / height;
    rest -= height;
  }
  return 0;
}

/** Height of the scrolled element. */
export function extent(geometry: Geometry, last = lastPosition(geometry)): number {
  return Math.min(SCROLL_MAX_PX, Math.ceil(last * geometry.lineHeight)) + geometry.viewport;
}

/** Whether the wheel has to be handled by hand, because a pixel of the scrollbar is not a pixel of text. */
export function isScaled(geometry: Geometry, wrapped: boolean): boolean {
  return wrapped || geometry.rows * geometry.lineHeight > SCROLL_MAX_PX;
}

export function positionAt(scrollTop: number, geometry: Geometry, last = lastPosition(geometry)): number {
  const range = extent(geometry, last) - geometry.viewport;
  return range <= 0 ? 0 : Math.min(1, Math.max(0, scrollTop / range)) * last;
}

export function scrollTopAt(position: number, geometry: Geometry, last = lastPosition(geometry)): number {
  if (last <= 0) return 0;
  const range = extent(geometry, last) - geometry.viewport;
  return (Math.min(position, last) / last) * range;
}

/** The position `pixels` further down (or up). */
export function moveBy(position: number, pixels: number, geometry: Geometry): number {
  let row = Math.floor(position);
  let offset = (position - row) * geometry.heightOf(row) + pixels;
  while (offset < 0 && row > 0) offset += geometry.heightOf(--row);
  while (row < geometry.rows - 1 && offset >= geometry.heightOf(row)) offset -= geometry.heightOf(row++);
  if (offset < 0) return 0;
  return Math.min(row + offset / geometry.heightOf(row), lastPosition(geometry));
}

/** The rows to draw, and how many pixels of the first one are above the edge. */
export function visible(
  position: number,
  geometry: Geometry,
): { first: number; end: number; offset: number } {
  const first = Math.max(0, Math.min(Math.floor(position), geometry.rows - 1));
  if (geometry.rows === 0) return { first: 0, end: 0, offset: 0 };
  const offset = (position - first) * geometry.heightOf(first);
  let filled = -offset;
  let end = first;
  while (end < geometry.rows && filled < geometry.viewport) filled += geometry.heightOf(end++);
  // One more than fits: a line with wide characters may be taller than its estimate, never the other way round.
  return { first, end: Math.min(geometry.rows, end + 1), offset };
}
