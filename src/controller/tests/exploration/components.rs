//! Strongly connected components, by Tarjan's algorithm without recursion.

const UNSEEN: u32 = u32::MAX;

/// Returns the components that no edge leaves. The edges of vertex `v` are
/// `targets[begins[v]..begins[v + 1]]`.
pub(super) fn bottom_components(begins: &[usize], targets: &[u32]) -> Vec<Vec<u32>> {
    let count = begins.len().saturating_sub(1);
    let mut order = vec![UNSEEN; count];
    let mut low = vec![0_u32; count];
    let mut component = vec![UNSEEN; count];
    let mut stack = Vec::new();
    // A vertex under way, and its next edge.
    let mut open: Vec<(u32, usize)> = Vec::new();
    let mut visited = 0;
    let mut bottoms = Vec::new();
    for root in 0..count as u32 {
        if order[root as usize] != UNSEEN {
            continue;
        }
        open.push((root, begins[root as usize]));
        while let Some(&mut (vertex, ref mut edge)) = open.last_mut() {
            let here = vertex as usize;
            if order[here] == UNSEEN {
                (order[here], low[here]) = (visited, visited);
                visited += 1;
                stack.push(vertex);
            }
            if *edge < begins[here + 1] {
                let target = targets[*edge];
                *edge += 1;
                let there = target as usize;
                if order[there] == UNSEEN {
                    open.push((target, begins[there]));
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
            let leaves = |member: &u32| {
                let edges = begins[*member as usize]..begins[*member as usize + 1];
                targets[edges].iter().any(|target| component[*target as usize] != vertex)
            };
            if !members.iter().any(leaves) {
                bottoms.push(members);
            }
        }
    }
    bottoms
}

#[test]
fn bottom_components_are_those_that_no_edge_leaves() {
    // 0 -> 1 <-> 2 -> 3, 4 <-> 5, 6
    let edges: [&[u32]; 7] = [&[1], &[2], &[1, 3], &[], &[5], &[4], &[]];
    let mut begins = vec![0];
    begins.extend(edges.iter().scan(0, |sum, edges| {
        *sum += edges.len();
        Some(*sum)
    }));
    let mut bottoms = bottom_components(&begins, &edges.concat());
    bottoms.iter_mut().for_each(|members| members.sort_unstable());
    assert_eq!(bottoms, [vec![3], vec![4, 5], vec![6]]);
}
