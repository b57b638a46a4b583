/** `1 warning`, `2 warnings`, `300,002 lines`; nobody reads `1 warnings`. */
export function counted(count: number, noun: string, several = `${noun}s`): string {
  return `${count.toLocaleString('en')} ${count === 1 ? noun : several}`;
}
