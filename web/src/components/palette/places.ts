/** Where one can go from every page: the menu of the frame, and the palette. */
import type { LinkProps } from '@tanstack/react-router';
import type { ComponentType } from 'react';
import type { User } from '../../api/types';
import {
  Box,
  Boxes,
  Branch,
  Building,
  Gauge,
  Hammer,
  Home,
  Key,
  Layers,
  People,
  Person,
  Play,
  Plug,
  Pulse,
  Robot,
  Scroll,
  Server,
  Shield,
  Ship,
  Sliders,
} from '../../ui/icons';

export interface Place {
  to: LinkProps['to'];
  label: string;
  icon: ComponentType;
  exact?: boolean;
}

interface PlaceGroup {
  label?: string;
  /** What helps nobody else is not in their way; whether it opens is the server's to say. */
  helps?: (user: User) => boolean;
  places: Place[];
}

const groups: PlaceGroup[] = [
  {
    places: [
      { to: '/', label: 'Home', icon: Home, exact: true },
      { to: '/projects', label: 'Projects', icon: Box },
      { to: '/pipelines', label: 'Pipelines', icon: Play },
      { to: '/builds', label: 'Builds', icon: Hammer },
      { to: '/applications', label: 'Applications', icon: Layers },
      { to: '/rollouts', label: 'Rollouts', icon: Ship },
      { to: '/repositories', label: 'Repositories', icon: Branch },
      { to: '/runtimes', label: 'Runtimes & runners', icon: Server },
      { to: '/clusters', label: 'Clusters', icon: Boxes },
      { to: '/admin/configuration', label: 'Shared configuration', icon: Sliders },
      { to: '/admin/integrations', label: 'Integrations', icon: Plug },
    ],
  },
  {
    label: 'Administration',
    helps: (user) => user.roles.includes('Admin'),
    places: [
      { to: '/admin/account', label: 'Account', icon: Building },
      { to: '/admin/users', label: 'Users', icon: Person },
      { to: '/admin/teams', label: 'Teams', icon: People },
      { to: '/admin/service-accounts', label: 'Service accounts', icon: Robot },
      { to: '/admin/access', label: 'Access rules', icon: Shield },
      { to: '/admin/sso', label: 'Single sign-on', icon: Key },
      { to: '/admin/audit', label: 'Audit log', icon: Scroll },
      { to: '/admin/usage', label: 'Usage & limits', icon: Gauge },
    ],
  },
  {
    label: 'Platform',
    helps: (user) => user.platformAdmin === true,
    places: [
      { to: '/admin/platform/accounts', label: 'Accounts', icon: Building },
      { to: '/admin/platform/people', label: 'People', icon: People },
      { to: '/admin/platform/health', label: 'System health', icon: Pulse },
    ],
  },
];

export const groupsFor = (user: User | null | undefined): PlaceGroup[] =>
  groups.filter(({ helps }) => !helps || (user ? helps(user) : false));
