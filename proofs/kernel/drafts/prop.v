From kernel Require Import definitions lemmas.
From kernel Require rf.lem1 rs.lem3_3 rs.rem2 rs.thm3_1.

(* lem2 under lem1's reading of the same words is false *)
Definition lem2_like_lem1 : Prop := forall d k q u, (0 < k <= d)%nat -> rf.lem1.mask_law d k q -> length u = d ->
  share d k * norm u <= E q (fun m => norm (mask m u)).
Theorem lem2_inconsistent : ~ lem2_like_lem1.
Proof.
  intro c. specialize (c 2%nat 1%nat rf.lem1.always [0; 1] ltac:(lia) rf.lem1.satisfiable eq_refl).
  unfold E, rf.lem1.always, share in c. simpl in c.
  assert (a : norm [0; 1] = 1) by norm_of. assert (b : norm [0; 0] = 0) by norm_of. rewrite a, b in c. lra.
Qed.

(* eq 26-27: "the trace is constant in d" *)
Definition constant_trace : Prop := forall lambda, 0 < lambda -> exists c, forall d l,
  length l = d -> Forall (fun a => 0 <= a <= lambda) l -> In lambda l -> In 0 l -> total l = c.
Theorem constant_trace_false : ~ constant_trace.
Proof.
  intro h. destruct (h 1 ltac:(lra)) as [c hc].
  pose proof (hc 2%nat [1; 0] eq_refl ltac:(repeat constructor; lra) ltac:(simpl; auto) ltac:(simpl; auto)) as a.
  pose proof (hc 3%nat [1; 1; 0] eq_refl ltac:(repeat constructor; lra) ltac:(simpl; auto) ltac:(simpl; auto)) as b.
  simpl in a, b. lra.
Qed.

(* lem3.3: a counterexample within the paper's "natural assumption" P' > P *)
Theorem lem3_3_natural : exists d k C w p, rs.lem3_3.assumed d k C w p /\
  (forall m, In m (masks d k) -> chance p (3 * C / 4) (fun v => v) < chance p (3 * C / 4) (mask m)) /\
  ~ exists kappa, share d k < kappa < 1 /\ rs.lem3_3.with_mask d k C w p = kappa * rs.lem3_3.without C w p.
Proof.
  exists 4%nat, 1%nat, 4, [2;2;2;2], rs.rem2.moving. split; [exact rs.rem2.satisfiable|]. split.
  - intros m i. unfold chance, rs.rem2.moving, E. cbn [map total fold_right fst snd].
    simpl in i. assert (j : In (m, 2) [([true; false; false; false], 2); ([false; true; false; false], 2);
      ([false; false; true; false], 2); ([false; false; false; true], 2)]).
    { destruct i as [<-|[<-|[<-|[<-|[]]]]]; simpl; tauto. }
    destruct (rs.rem2.norm_one m 2 j) as (e1 & e2 & e3). rewrite e1, e2, e3, rs.rem2.n4, rs.rem2.n4', rs.rem2.n0.
    rewrite !(below_true _ 2), !(below_true _ 0), !(below_false _ 4) by lra. lra.
  - intros (kappa & r & e). destruct rs.rem2.one as [a b]. rewrite a, b in e. lra.
Qed.

(* thm3.1: instance by instance *)
Theorem thm3_1_instance : forall C m g, 0 < C -> norm (clip C (mask m g)) <= norm (clip C g).
Proof.
  intros C m g C0. rewrite !norm_clip by lra. apply Rle_min_compat_r. apply norm_mask.
Qed.

(* lem1 with a uniform mask, independent of u and of v one by one *)
Definition marg {A} (p : law (list bool * (vec * vec))) (f : list bool -> vec * vec -> A) := map (fun a => (fst a, f (fst (snd a)) (snd (snd a)))) p.
Definition t := true. Definition f := false.
Definition tied : law (list bool * (vec * vec)) :=
  [(1/4, ([t; f], ([1; 0], [1; 0]))); (1/4, ([t; f], ([-1; 0], [-1; 0]))); (1/4, ([f; t], ([1; 0], [-1; 0]))); (1/4, ([f; t], ([-1; 0], [1; 0])))].
Definition one_by_one d k (p : law (list bool * (vec * vec))) : Prop := lawful p /\
  (forall F G, E p (fun a => F (fst a) * G (fst (snd a))) = avg (masks d k) F * E p (fun a => G (fst (snd a)))) /\
  (forall F G, E p (fun a => F (fst a) * G (snd (snd a))) = avg (masks d k) F * E p (fun a => G (snd (snd a)))).
Theorem tied_ok : one_by_one 2 1 tied /\ E tied (fun a => dot (mask (fst a) (fst (snd a))) (snd (snd a))) <> share 2 1 * E tied (fun a => dot (fst (snd a)) (snd (snd a))).
Proof.
  split; [split; [unfold tied; lawful_by|]; split; intros F G; unfold E, tied, avg, t, f; simpl; field|].
  unfold E, tied, share, dot, t, f. simpl. lra.
Qed.
