import type { Team } from '../../api/types';

/** Everybody who was put into a team: people first, then service accounts. */
export const membersOf = (team: Team | undefined) => [
  ...(team?.users ?? []),
  ...(team?.serviceAccounts ?? []),
];

/** The two teams that go by role have a type; those that people are put into have none. */
export const isCustom = ({ type }: Team) => !type;
