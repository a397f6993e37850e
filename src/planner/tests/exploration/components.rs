//! Strongly connected components, by Tarjan's algorithm without recursion.

const UNSEEN: u32 = u32::MAX;

/// The edges of a graph, vertex by vertex.
#[derive(Default)]
pub(super) struct Edges {
    targets: Vec<u32>,
    begins: Vec<usize>,
}

impl Edges {
    /// The edges that are added from now on are those of the next vertex.
    pub(super) fn begin(&mut self) {
        self.begins.push(self.targets.len());
    }

    pub(super) fn add(&mut self, target: u32) {
        self.targets.push(target);
    }

    pub(super) fn of(&self, vertex: u32) -> &[u32] {
        let end = self.begins.get(vertex as usize + 1).copied().unwrap_or(self.targets.len());
        &self.targets[self.begins[vertex as usize]..end]
    }

    /// Returns the components that no edge leaves.
    pub(super) fn bottoms(&self) -> Vec<Vec<u32>> {
        let components = self.components();
        let mut members = vec![Vec::new(); components.len()];
        for vertex in 0..components.len() as u32 {
            let component = components[vertex as usize];
            members[component as usize].push(vertex);
        }
        let leaves = |vertex: u32| {
            let component = components[vertex as usize];
            self.of(vertex).iter().any(|target| components[*target as usize] != component)
        };
        members.retain(|members| !members.is_empty() && !members.iter().any(|vertex| leaves(*vertex)));
        members
    }

    /// Returns the component of each vertex, as one of its members.
    pub(super) fn components(&self) -> Vec<u32> {
        components(self)
    }
}

fn components(edges: &Edges) -> Vec<u32> {
    let count = edges.begins.len();
    let mut order = vec![UNSEEN; count];
    let mut low = vec![0_u32; count];
    let mut component = vec![UNSEEN; count];
    let mut stack = Vec::new();
    // A vertex under way, and its next edge.
    let mut open: Vec<(u32, usize)> = Vec::new();
    let mut visited = 0;
    for root in 0..count as u32 {
        if order[root as usize] != UNSEEN {
            continue;
        }
        open.push((root, 0));
        while let Some(&mut (vertex, ref mut edge)) = open.last_mut() {
            let here = vertex as usize;
            if order[here] == UNSEEN {
                (order[here], low[here]) = (visited, visited);
                visited += 1;
                stack.push(vertex);
            }
            if let Some(&target) = edges.of(vertex).get(*edge) {
                *edge += 1;
                let there = target as usize;
                if order[there] == UNSEEN {
                    open.push((target, 0));
                } else if component[there] == UNSEEN {
                    low[here] = low[here].min(order[there]);
                }
                continue;
            }
            open.pop();
            if let Some((before, _)) = open.last() {
                low[*before as usize] = low[*before as usize].min(low[here]);
            }
            if low[here] < order[here] {
                continue;
            }
            let begin = stack.iter().rposition(|other| *other == vertex).unwrap_or_default();
            let members = stack.split_off(begin);
            members.iter().for_each(|member| component[*member as usize] = vertex);
        }
    }
    component
}

#[test]
fn bottom_components_are_those_that_no_edge_leaves() {
    // 0 -> 1 <-> 2 -> 3, 4 <-> 5, 6
    let edges: [&[u32]; 7] = [&[1], &[2], &[1, 3], &[], &[5], &[4], &[]];
    let mut graph = Edges::default();
    for targets in edges {
        graph.begin();
        targets.iter().for_each(|target| graph.add(*target));
    }
    assert_eq!(graph.bottoms(), [vec![3], vec![4, 5], vec![6]]);
}
