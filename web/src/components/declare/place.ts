/** Where the file is that declares an Application, and whose access commits it. */
export interface Place {
  /** Which of the person's accesses: its place in the list. */
  account: number;
  repository: string;
  branch: string;
  file: string;
  message: string;
}

export const NOWHERE: Place = { account: 0, repository: '', branch: '', file: '', message: '' };

export const isRepository = (text: string): boolean => /^[^/\s]+\/\S+$/.test(text.trim());
