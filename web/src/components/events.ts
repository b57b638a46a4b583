/** Events of Git providers: the API's words, and how people call them. A word that is not known is shown as it is. */
const EVENTS: Record<string, string> = {
  'push.heads': 'Push to a branch',
  'push.tags': 'Push of a tag',
  'push.newBranch': 'New branch',
  'push.deleteBranch': 'Deleted branch',
  'pullrequest.opened': 'Pull request opened',
  'pullrequest.synchronize': 'Pull request updated',
  'pullrequest.reopened': 'Pull request reopened',
  'pullrequest.closed': 'Pull request closed',
  'pullrequest.merged': 'Pull request merged',
  'pullrequest.labeled': 'Pull request labeled',
  'pullrequest.commentAdded': 'Comment on a pull request',
  release: 'Release',
};

export const eventText = (event: string): string => EVENTS[event] ?? event;
export const eventChoices = Object.entries(EVENTS).map(([value, label]) => ({ value, label }));
