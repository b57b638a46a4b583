/** SHA-256 of a text, in hex. Browsers have it where the page came over https, or from this machine. */
export async function sha256(text: string): Promise<string> {
  if (!globalThis.crypto?.subtle)
    throw new Error('this needs a page that came over https (or from localhost): ask for the platform there');
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
  return hex(new Uint8Array(digest));
}

export const hex = (bytes: Uint8Array): string =>
  [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
