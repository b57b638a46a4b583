/** The mark: a hull on its way down the slip. */
export function Mark({ size = 28 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <path
        d="M4 11.5 28 6l-3.4 9.2a4.4 4.4 0 0 1-3.1 2.8L9.3 20.8a3.4 3.4 0 0 1-3.7-1.7z"
        fill="var(--oxide)"
      />
      <path d="M3 28 29 21.8" stroke="currentColor" strokeWidth="2.4" strokeLinecap="round" />
      <path d="M9.5 22.6v3M17.5 20.7v3" stroke="currentColor" strokeWidth="1.8" strokeLinecap="round" />
    </svg>
  );
}
