/** The mark: a ship on its way down the slip. */
export function Mark({ size = 28 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <g transform="rotate(16 16 17)">
        <path d="M3.5 13.2h25l-3.2 5.6a3 3 0 0 1-2.6 1.5H9.6a4.4 4.4 0 0 1-3.9-2.4z" fill="var(--oxide)" />
        <path
          d="M12 8.2h6.4v3.4H12zM21.4 6v5.6"
          stroke="currentColor"
          strokeWidth="2"
          strokeLinejoin="round"
          strokeLinecap="round"
          fill="currentColor"
        />
        <path d="M2 24.4h28" stroke="currentColor" strokeWidth="2.4" strokeLinecap="round" />
      </g>
    </svg>
  );
}
