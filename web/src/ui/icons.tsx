/** The few signs that pages need, drawn on a 16-pixel grid. They are decoration: the text beside them says the same. */
import type { ReactNode, SVGProps } from 'react';

function icon(children: ReactNode) {
  return function Icon(props: SVGProps<SVGSVGElement>) {
    return (
      <svg
        width="16"
        height="16"
        viewBox="0 0 16 16"
        fill="none"
        stroke="currentColor"
        strokeWidth="1.5"
        strokeLinecap="round"
        strokeLinejoin="round"
        aria-hidden="true"
        focusable="false"
        {...props}
      >
        {children}
      </svg>
    );
  };
}

export const ArrowDown = icon(<path d="M8 3v10M4 9l4 4 4-4" />);
export const Box = icon(<path d="M8 1.8 14 5v6l-6 3.2L2 11V5zM2 5l6 3.2L14 5M8 8.2v6" />);
export const Boxes = icon(<path d="M2.5 2.5H7V7H2.5zM9 2.5h4.5V7H9zM2.5 9H7v4.5H2.5zM9 9h4.5v4.5H9z" />);
export const Branch = icon(
  <>
    <circle cx="4.5" cy="3.5" r="1.7" />
    <circle cx="4.5" cy="12.5" r="1.7" />
    <circle cx="11.5" cy="5.5" r="1.7" />
    <path d="M4.5 5.2v5.6M11.5 7.2c0 2.6-4.6 1.6-6.6 3.8" />
  </>,
);
export const Building = icon(<path d="M3.5 14V2.5h6V14M9.5 6.5h3V14M2 14h12M5.5 5h2M5.5 8h2M5.5 11h2" />);
export const Check = icon(<path d="m3 8.5 3.2 3.2L13 4.8" />);
export const ChevronDown = icon(<path d="m4 6 4 4 4-4" />);
export const ChevronRight = icon(<path d="m6 4 4 4-4 4" />);
export const ChevronUp = icon(<path d="m4 10 4-4 4 4" />);
export const Clock = icon(
  <>
    <circle cx="8" cy="8" r="6" />
    <path d="M8 4.5V8l2.3 1.6" />
  </>,
);
export const Commit = icon(
  <>
    <circle cx="8" cy="8" r="2.6" />
    <path d="M1.5 8h3.9M10.6 8h3.9" />
  </>,
);
export const Copy = icon(
  <>
    <rect x="5.5" y="5.5" width="8" height="8.5" rx="1.2" />
    <path d="M10.5 5.5v-2a1.2 1.2 0 0 0-1.2-1.2H3.7a1.2 1.2 0 0 0-1.2 1.2v6.3a1.2 1.2 0 0 0 1.2 1.2h1.8" />
  </>,
);
export const Cross = icon(<path d="m4 4 8 8M12 4l-8 8" />);
export const Dash = icon(<path d="M4 8h8" />);
export const External = icon(
  <path d="M9 2.5h4.5V7M13.5 2.5 7.5 8.5M12 9.5v3a1 1 0 0 1-1 1H3.5a1 1 0 0 1-1-1V5a1 1 0 0 1 1-1h3" />,
);
export const Gauge = icon(
  <>
    <path d="M2.5 12.5a6 6 0 1 1 11 0" />
    <path d="m8 10 3-3.5" />
  </>,
);
export const Graph = icon(
  <>
    <rect x="1.5" y="6" width="4" height="4" rx="0.8" />
    <rect x="10.5" y="2" width="4" height="4" rx="0.8" />
    <rect x="10.5" y="10" width="4" height="4" rx="0.8" />
    <path d="M5.5 8H8m0 0V4h2.5M8 8v4h2.5" />
  </>,
);
export const Hammer = icon(<path d="m2.5 13.5 6-6M7 3.5l5.5 5.5 1.5-1.5L10.5 4 9 2.5H6.5z" />);
export const Home = icon(<path d="M2.5 7.5 8 2.5l5.5 5M4 6.5v7h8v-7" />);
export const Key = icon(
  <>
    <circle cx="5" cy="11" r="2.8" />
    <path d="m7 9 6.5-6.5M11 5l2 2" />
  </>,
);
export const Layers = icon(<path d="m8 2 6 3-6 3-6-3zM2 8l6 3 6-3M2 11l6 3 6-3" />);
export const Menu = icon(<path d="M2.5 4.5h11M2.5 8h11M2.5 11.5h11" />);
export const Moon = icon(<path d="M13.2 9.6A5.6 5.6 0 0 1 6.4 2.8a5.6 5.6 0 1 0 6.8 6.8z" />);
export const People = icon(
  <>
    <circle cx="6" cy="5.3" r="2.3" />
    <path d="M1.8 13.5c.4-2.7 2-4 4.2-4s3.8 1.3 4.2 4M10.5 3.2a2.3 2.3 0 0 1 0 4.2M12 9.8c1.3.6 2 1.9 2.2 3.7" />
  </>,
);
export const Person = icon(
  <>
    <circle cx="8" cy="5" r="2.6" />
    <path d="M2.8 14c.6-3 2.6-4.4 5.2-4.4s4.6 1.4 5.2 4.4" />
  </>,
);
export const Play = icon(<path d="M4.5 2.8v10.4L13 8z" />);
export const Plug = icon(<path d="M6 1.8v3.4M10 1.8v3.4M4.2 5.2h7.6v2.2a3.8 3.8 0 0 1-7.6 0zM8 11.2v3" />);
export const Pencil = icon(<path d="m3 13 .8-3L11 2.8l2.2 2.2L6 12.2zM9.5 4.3l2.2 2.2" />);
export const Plus = icon(<path d="M8 3v10M3 8h10" />);
export const Pulse = icon(<path d="M1.5 8.5h3l2-5 3 9 2-4h3" />);
export const Dots = icon(<path d="M3.5 8h.01M8 8h.01M12.5 8h.01" strokeWidth="2.4" />);
export const NotEqual = icon(<path d="M3 6h10M3 10h10M10 3 6 13" />);
export const Refresh = icon(<path d="M13.5 8a5.5 5.5 0 1 1-1.7-4M13.5 2v3.2h-3.2" />);
export const Robot = icon(
  <>
    <rect x="2.5" y="5.5" width="11" height="8" rx="1.5" />
    <path d="M8 5.5V2.5M6 9h.01M10 9h.01M6 11.3h4" />
  </>,
);
export const Scroll = icon(<path d="M4 2.5h8v11H4zM6 5.5h4M6 8h4M6 10.5h2.5" />);
export const Search = icon(
  <>
    <circle cx="7" cy="7" r="4.3" />
    <path d="m10.3 10.3 3.4 3.4" />
  </>,
);
export const Server = icon(
  <>
    <rect x="2" y="2.5" width="12" height="4.6" rx="1" />
    <rect x="2" y="8.9" width="12" height="4.6" rx="1" />
    <path d="M4.7 4.8h.01M4.7 11.2h.01" />
  </>,
);
export const Shield = icon(
  <path d="M8 1.8 13 3.6v4c0 3.2-2 5.4-5 6.6-3-1.2-5-3.4-5-6.6v-4zM5.8 8l1.6 1.6 2.8-3.2" />,
);
export const Ship = icon(
  <path d="M2.2 6 14 9.1l-2.7 2.3a1.8 1.8 0 0 1-1.6.3L5 10.5a2.2 2.2 0 0 1-1.6-1.4zM1.5 11.8l13 3.4M6.6 6.9l.8-3 2.9.8-.8 3" />,
);
export const Sliders = icon(
  <>
    <path d="M2 4.5h6M12 4.5h2M2 11.5h2M8 11.5h6" />
    <circle cx="10" cy="4.5" r="1.8" />
    <circle cx="6" cy="11.5" r="1.8" />
  </>,
);
export const Stop = icon(<rect x="3.8" y="3.8" width="8.4" height="8.4" rx="1" />);
export const Sun = icon(
  <>
    <circle cx="8" cy="8" r="2.8" />
    <path d="M8 1.5v1.3M8 13.2v1.3M1.5 8h1.3M13.2 8h1.3M3.4 3.4l.9.9M11.7 11.7l.9.9M3.4 12.6l.9-.9M11.7 4.3l.9-.9" />
  </>,
);
export const Undo = icon(<path d="M5.5 3 2.5 6l3 3M2.5 6h7a4 4 0 0 1 0 8H6" />);
export const Warn = icon(<path d="M8 2.2 14.5 13.5h-13zM8 6.5v3.2M8 11.6h.01" />);
